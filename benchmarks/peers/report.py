"""The comparison as a table to read."""


def best_peer(measured, key):
    """The peer whose `key` (best or median seconds) is smallest, by name."""
    peers = {name: times for name, times in measured["participants"].items() if name != "Heed"}
    return min(peers, key=lambda name: peers[name][key])


def ratio(measured, key):
    """Heed's speed over that of the best peer."""
    participants = measured["participants"]
    return participants[best_peer(measured, key)][key] / participants["Heed"][key]


def rates(measured, name):
    times = measured["participants"][name]
    return " / ".join(f"{measured['work'] / times[key] * 1e-9:.1f}" for key in ("best", "median"))


def peak_share(measured, key):
    return 100 * measured["work"] / measured["participants"]["Heed"][key] / measured["peak"]


def _cells(measured, column):
    """A peer may take part in two ways, as "name" and as "name, way"."""
    cells = []
    for name in measured["participants"]:
        peer, _, way = name.partition(", ")
        if peer == column:
            cells.append((way + " " if way else "") + rates(measured, name))
    return "; ".join(cells)


def _table(results, names):
    columns = [name for name in names if any(_cells(measured, name) for measured in results)]
    header = ["row", "unit", *columns, "Heed / best peer", "best peer", "Heed / peak, %"]
    lines = [header, ["---"] * len(header)]
    for measured in results:
        ratios = " / ".join(f"{ratio(measured, key):.2f}" for key in ("best", "median"))
        shares = " / ".join(f"{peak_share(measured, key):.0f}" for key in ("best", "median"))
        cells = [_cells(measured, column) or "–" for column in columns]
        lines.append([measured["row"], measured["unit"], *cells, ratios, best_peer(measured, "best"), shares])
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
