"""Other load generators on the same server: programs, and MLCommons' LoadGen over our driver. Imports no Locust."""
