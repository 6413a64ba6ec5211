"""Shared parts of the dashboards' panels: targets, sizes, legends, variables, the marks where stages begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import common, heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmaps
from grafana_foundation_sdk.models import prometheus as queries

from dashboards.grafana._queries import CHOSEN, of

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH = 24
"""Of Grafana's grid."""
TAG = "servemark"
GREEN, YELLOW, RED = "green", "yellow", "red"
LETTERS = "ABCDEFGHIJKLMNOP"
"""Of a panel's queries."""
Panel = Builder[models.Panel]
AnyPanel = TypeVar("AnyPanel", timeseries.Panel, stat.Panel, heatmap.Panel, statetimeline.Panel, table.Panel)


@dataclass(frozen=True)
class Line:
    """One query of a panel, and what its series are called; `{{label}}` stands for a label's value."""

    query: str
    name: str


def board(name: str, title: str, description: str, *more: Builder[models.VariableModel]) -> boards.Dashboard:
    """Begin a dashboard: uid, variables, links to the others, the stages as annotations."""
    others = boards.DashboardLink(TAG).type(models.DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(True)
    made = (
        boards.Dashboard(title)
        .uid(f"servemark-{name}")
        .description(description)
        .tags([TAG])
        .time("now-15m", "now")
        .refresh("5s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(others.include_vars(True).keep_time(True))
        .annotation(_Stages())
        .with_variable(boards.DatasourceVariable("datasource").label("data source").type("prometheus"))
    )
    asked: list[str] = []
    for label in ("workload", "engine", "device", "run"):
        made = made.with_variable(variable(label, f"servemark_run_info{{{', '.join(asked)}}}"))
        asked.append(f'{label}=~"${label}"')
    for builder in more:
        made = made.with_variable(builder)
    return made


def variable(label: str, series: str, *, name: str = "", many: bool = True) -> Builder[models.VariableModel]:
    """Offer the values of a label of some series; several and all of them where `many`."""
    made = (
        boards.QueryVariable(name or label)
        .label(name or label)
        .query({"query": f"label_values({series}, {label})", "refId": name or label})
        .datasource(SOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(many)
        .include_all(many)
    )
    # A label may be empty: `.*` takes those series too, and is short where there are many values.
    return made.all_value(".*").current(models.VariableOption(text="All", value="$__all")) if many else made


def row(made: boards.Dashboard, title: str, *panels: Panel) -> boards.Dashboard:
    """Add a row with its panels."""
    made = made.with_row(boards.Row(title))
    for panel in panels:
        made = made.with_panel(panel)
    return made


def graph(
    title: str,
    description: str,
    unit: str,
    *lines: Line,
    width: int = WIDTH // 2,
    log: bool = False,
    stacked: bool = False,
    limit: float | None = None,
    dashed: str = "",
) -> timeseries.Panel:
    """Draw lines over time; `limit` is drawn across, series whose name begins with `dashed` are dashed."""
    panel = (
        _panel(timeseries.Panel(), title, description, lines, width)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(40 if stacked else 0)
        .show_points(looks.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(looks.LegendDisplayMode.TABLE)
            .placement(looks.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI).sort(looks.SortOrder.DESCENDING))
        .thresholds(_steps((None, GREEN)) if limit is None else _steps((None, GREEN), (limit, RED)))
    )
    if limit is not None:
        panel = panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(looks.GraphThresholdsStyleMode.DASHED))
    if log:
        panel = panel.scale_distribution(
            common.ScaleDistributionConfig().type(looks.ScaleDistribution.LOG).log(10)
        ).min(0.0001)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL))
    if dashed:
        style: dict[str, Any] = {"fill": "dash", "dash": [8, 6]}
        panel = panel.override_by_regexp(
            f"/^{dashed}/",
            [
                models.DynamicConfigValue(id_val="custom.lineStyle", value=style),
                models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": RED}),
            ],
        )
    return panel


def figure(
    title: str,
    description: str,
    unit: str,
    *lines: Line,
    width: int = WIDTH // 6,
    steps: Sequence[tuple[float | None, str]] = ((None, GREEN),),
    height: int = 5,
) -> stat.Panel:
    """Show the newest value of each query; its colour is that of the last step that it has reached."""
    return (
        _panel(stat.Panel(), title, description, lines, width, height, instant=True)
        .unit(unit)
        .graph_mode(looks.BigValueGraphMode.NONE)
        .color_mode(looks.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().values(False).calcs(["lastNotNull"]).fields(""))
        .orientation(looks.VizOrientation.AUTO)
        .thresholds(_steps(*steps))
    )


def heat(title: str, description: str, query: str) -> heatmap.Panel:
    """Show a histogram over time (seconds)."""
    target = prometheus.Dataquery().expr(query).legend_format("{{le}}").format(queries.PromQueryFormat.HEATMAP)
    return (
        _panel(heatmap.Panel(), title, description, (), WIDTH // 2)
        .calculate(False)
        .y_axis(heatmap.YAxisConfig().unit("s").axis_placement(looks.AxisPlacement.LEFT))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmaps.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .scale(heatmaps.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .with_target(target.range().ref_id("A"))
    )


def states(
    title: str, description: str, line: Line, words: Mapping[str, tuple[str, str]], width: int = WIDTH // 2
) -> statetimeline.Panel:
    """Show a state of each series over time; `words` has each value's text and colour."""
    shown = {value: models.ValueMappingResult(text=text, color=color) for value, (text, color) in words.items()}
    return (
        _panel(statetimeline.Panel(), title, description, [line], width)
        .merge_values(True)
        .mappings([models.ValueMap(options=shown)])
    )


def rows(title: str, description: str, by: Sequence[str], columns: Mapping[str, tuple[str, str]]) -> table.Panel:
    """Show a table: a row for each value of the labels `by`, and for each column its unit and its query."""
    panel = _panel(table.Panel(), title, description, (), WIDTH, 9)
    panel = panel.show_header(True).frame_index(0).align(looks.FieldTextAlignment.AUTO).inspect(False)
    panel = panel.cell_options(looks.TableAutoCellOptions())
    names: dict[str, str] = {}
    for letter, (name, (unit, query)) in zip(LETTERS, columns.items(), strict=False):
        target = prometheus.Dataquery().expr(query).format(queries.PromQueryFormat.TABLE)
        panel = panel.with_target(target.instant().ref_id(letter))
        panel = panel.override_by_name(name, [models.DynamicConfigValue(id_val="unit", value=unit)])
        names[f"Value #{letter}"] = name
    order = {name: index for index, name in enumerate([*by, *names])}
    shape = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    return panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={})).with_transformation(
        models.DataTransformerConfig(id_val="organize", options=shape)
    )


def _panel(
    panel: AnyPanel,
    title: str,
    description: str,
    lines: Sequence[Line],
    width: int,
    height: int = 8,
    *,
    instant: bool = False,
) -> AnyPanel:
    """Set what all panels have. `instant`: the newest values alone are asked for."""
    panel = panel.title(title).description(description).datasource(SOURCE).span(width).height(height)
    for letter, line in zip(LETTERS, lines, strict=False):
        target = prometheus.Dataquery().expr(line.query).legend_format(line.name).ref_id(letter)
        panel = panel.with_target(target.instant() if instant else target.range())
    return panel


def _steps(*steps: tuple[float | None, str]) -> boards.ThresholdsConfig:
    made = [models.Threshold(value=value, color=color) for value, color in steps]
    return boards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


class _Stages(boards.AnnotationQuery):
    """Marks where a stage of a run begins, at the time that the metric says."""

    def __init__(self) -> None:
        super().__init__()
        self.name("stages").datasource(SOURCE).enable(True).icon_color("blue")
        self.expr(f"1000 * {of('servemark_stage_start_timestamp_seconds', chosen=CHOSEN)}")

    def build(self) -> models.AnnotationQuery:
        return _ValueAsTime(**vars(super().build()))


class _ValueAsTime(models.AnnotationQuery):
    """The options of Grafana's Prometheus data source, which the SDK does not know (its AnnotationQueryEditor)."""

    def to_json(self) -> dict[str, object]:
        words = {"titleFormat": "a stage begins", "textFormat": "{{workload}}, {{engine}}, run {{run}}"}
        return super().to_json() | words | {"useValueForTime": True, "step": "1s"}
