"""Ten small random clusters, and what each property said about them."""

from isotone.sim.plan import Size
from isotone.sim.swarm import run_swarm, summarise_swarm
from isotone.sim.system import Setting


def main() -> None:
    setting = Setting(size=Size.SMALL)
    summary = summarise_swarm(setting, run_swarm(setting, range(1, 11), workers=1))
    for label, counts in summary.properties.items():
        print(f"{label:<12} holds in {counts['holds']:>2}, not exercised in {counts['not_exercised']:>2}")
    print(f"{summary.runs} runs, {summary.violations} violations")


if __name__ == "__main__":
    main()
