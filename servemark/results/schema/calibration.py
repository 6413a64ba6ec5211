"""The certificate of a meter: `servemark calibrate`."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.results.schema.header import KIND, CampaignHeader

Figures = dict[str, float | None]
CalibrationOutcome = Literal["trusted", "not trusted", "undecided"]


class ArrivalsSeen(TypedDict):
    """Arrivals as the server saw them, beside the schedule that was asked for."""

    asked_rate: Annotated[float, "Requests/s that were asked for."]
    rate: Annotated[float, "Requests/s that came."]
    offset_p50_ms: Annotated[float | None, "Constant: half of the requests came within this of their time (ms)."]
    offset_p99_ms: Annotated[float | None, "Constant: 99 % came within this of their time (ms)."]
    ks_distance: Annotated[float | None, "Poisson: Kolmogorov-Smirnov distance of the gaps to exponential ones."]
    ks_p: Annotated[float | None, "Poisson: how often true Poisson arrivals lie that far off, or farther."]


class CalibrationRow(TypedDict):
    """One load generator in one case. What it cannot say is null."""

    case: Annotated[str, "Name of the case."]
    meter: Annotated[str, "Name of the load generator."]
    round: Annotated[int, "Round, from 1."]
    able: Annotated[bool, "Whether it can make this load at all."]
    requests: Annotated[int | None, "Inferences that the server received."]
    requests_per_s: Annotated[float | None, "The same per second, by the server's clock."]
    server_bound: Annotated[bool | None, "Whether the server's process had no more to give: the rate is a least one."]
    reported_ms: Annotated[Figures, "Percentile -> what the load generator reported (ms)."]
    true_ms: Annotated[Figures, "Percentile -> the truth (ms): the server's log, or the schedule."]
    error_ms: Annotated[Figures, "Percentile -> reported less true (ms)."]
    server_late_p99_ms: Annotated[float | None, "99 % of the answers were written within this of their time (ms)."]
    failures_reported: Annotated[int | None, "Failed requests that the load generator reported."]
    failures_true: Annotated[int | None, "Requests whose connection the server reset."]
    arrivals: Annotated[ArrivalsSeen | None, "Arrivals beside their schedule. Null: a closed loop."]
    reason: NotRequired[Annotated[str, "Why there are no figures at all."]]


class CalibrationCase(TypedDict):
    """A behaviour of the server, and a load."""

    name: Annotated[str, "Its name."]
    title: Annotated[str, "The same in words."]
    seconds: Annotated[int, "Length of the load (s)."]
    judged: Annotated[bool, "Whether its errors count for the verdict."]
    theory_ms: Annotated[Figures, "Percentile -> latency by theory (ms). Empty: the server's log alone knows."]


class CalibratedMeter(TypedDict):
    """A load generator's errors: medians over the rounds."""

    name: Annotated[str, "Its name."]
    paced: Annotated[bool, "Whether a rate only slows its closed loop down."]
    within_ms: Annotated[float | None, "Each percentile is within this and `limit_share` of the truth (ms)."]
    worst: Annotated[str | None, "Where it is that far off, like `stall p99`."]
    floor_ms: Annotated[float | None, "Its p50 with one request in flight, on a server that answers at once (ms)."]
    step_ms: Annotated[float | None, "All that it reported is a multiple of this (ms): 1, 0.1, 0.01 or 0.001."]
    ceiling_per_s: Annotated[float | None, "Requests/s of one process, on a server that answers at once."]
    server_bound: Annotated[bool | None, "Whether the server set that limit."]
    failures_share: Annotated[float | None, "Failures that it reported, as a share of the true ones: 1 is right."]
    offset_p99_ms: Annotated[float | None, "Constant arrivals: 99 % came within this of their time (ms)."]
    ks_p: Annotated[float | None, "Poisson arrivals: p value of their gaps; the smallest of the rounds."]
    trusted: Annotated[bool, "Whether all of that is within the limits."]
    wrong: Annotated[list[str], "What is not, in words."]


class GoldenErrors(TypedDict):
    """Errors of the truth itself."""

    realtime: Annotated[bool, "Whether the server ran before ordinary work."]
    cores_awake: Annotated[bool, "Whether cores were kept out of idle states, for every load generator alike."]
    other_cpu_share: Annotated[float | None, "Share of the cores that other work took. Null: /proc does not tell."]
    late_p50_ms: Annotated[float | None, "Median over the judged rows of the server's lateness, at its p99 (ms)."]
    unseen_p50_ms: Annotated[float, "Way to the server and back, which its log cannot see: half of the requests (ms)."]
    unseen_p99_ms: Annotated[float, "The same of 99 % of the requests (ms)."]


class CalibrationVerdict(TypedDict):
    """Verdict over servemark. The other load generators are beside it."""

    outcome: Annotated[CalibrationOutcome, "`undecided`: the machine was too unquiet."]
    words: Annotated[str, "The same as a sentence."]
    limit_ms: Annotated[float, "An error may be this large (ms) ..."]
    limit_share: Annotated[float, "... and this share of the truth."]
    offset_limit_ms: Annotated[float, "Arrivals may be off by this at p99 (ms)."]
    exit_code: Annotated[int, "Exit code of the command."]


class Calibration(CampaignHeader):
    """The certificate: load generators against a server whose delays are known."""

    kind: Annotated[Literal["calibration"], KIND]
    full: Annotated[bool, "Whether it was asked for in full."]
    rounds: Annotated[int, "Rounds; the load generators took turns in each case."]
    golden: Annotated[GoldenErrors, "The server's own errors."]
    cases: Annotated[list[CalibrationCase], "The cases."]
    meters: Annotated[list[CalibratedMeter], "The load generators, servemark first."]
    rows: Annotated[list[CalibrationRow], "Each load generator in each case."]
    verdict: Annotated[CalibrationVerdict | None, "The verdict. Null: nothing was measured."]
