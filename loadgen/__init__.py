"""Load generation on Locust: schedules, the wire path, recording, and one locustfile for each task."""
