"""The comparison as a table to read."""


def _of_column(measured, column):
    """A participant may take part in several ways, as "name" and as "name, way"."""
    return [name for name in measured["participants"] if name.partition(", ")[0] == column]


def own_names(measured):
    return _of_column(measured, "Heed")


def best_peer(measured, key):
    """The peer whose `key` (best or median seconds) is smallest, by name."""
    peers = {name: times for name, times in measured["participants"].items() if name not in own_names(measured)}
    return min(peers, key=lambda name: peers[name][key])


def ratios(measured, own):
    """Heed's speed over that of the best peer, by best and by median time."""
    times = measured["participants"]
    return " / ".join(f"{times[best_peer(measured, key)][key] / times[own][key]:.2f}" for key in ("best", "median"))


def rates(measured, name):
    times = measured["participants"][name]
    return " / ".join(f"{measured['work'] / times[key] * 1e-9:.1f}" for key in ("best", "median"))


def peak_shares(measured, own):
    times = measured["participants"][own]
    return " / ".join(f"{100 * measured['work'] / times[key] / measured['peak']:.0f}" for key in ("best", "median"))


def _cell(measured, names, figures):
    return "; ".join(f"{name.partition(', ')[2]} {figures(measured, name)}".lstrip() for name in names)


def _table(results, names):
    columns = [name for name in names if any(_of_column(measured, name) for measured in results)]
    header = ["row", "unit", *columns, "Heed / best peer", "best peer", "Heed / peak, %"]
    lines = [header, ["---"] * len(header)]
    for measured in results:
        cells = [_cell(measured, _of_column(measured, column), rates) or "–" for column in columns]
        own = own_names(measured)
        own_cells = [_cell(measured, own, ratios), best_peer(measured, "best"), _cell(measured, own, peak_shares)]
        lines.append([measured["row"], measured["unit"], *cells, *own_cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _differences(results):
    lines = ["| row | threads | between any two | from double precision |", "| --- | --- | --- | --- |"]
    for measured in results:
        each = "; ".join(f"{name} {text(found['difference'])}" for name, found in measured["participants"].items())
        between = text(measured["largest_difference"]) if measured["largest_difference"] is not None else "–"
        lines.append(f"| {measured['row']} | {measured['threads']} | {between} | {each} |")
    return "\n".join(lines)


def text(difference):
    """A largest difference; under dropout those of scale and variance."""
    if isinstance(difference, float):
        return f"{difference:.1e}"
    return "scale {:+.3f}, variance {:+.3f}".format(*difference)


def markdown(report):
    head = report["header"]
    parts = ["# Heed and its peers", ""]
    parts += [f"- {name}: {value}" for name, value in head.items() if name not in ("versions", "notes")]
    parts += ["- " + ", ".join(f"{name} {version}" for name, version in head["versions"].items())]
    parts += [f"- {note}" for note in head["notes"]]
    for threads in dict.fromkeys(measured["threads"] for measured in report["results"]):
        parts += ["", f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        results = [measured for measured in report["results"] if measured["threads"] == threads]
        parts += [_table(results, report["participants"])]
    parts += ["", "## Largest differences", "", _differences(report["results"]), ""]
    return "\n".join(parts)
