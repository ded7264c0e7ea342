"""How free the oracle is, the names of its free choices, and the time within which it settles."""

from __future__ import annotations

import msgspec

CHOICES: tuple[str, ...] = (
    "cascaded_view",  # a view whose group was signalled at once, because the daemon view was superseded
    "crash_loses_unsent",  # a crash lost what the daemon had taken and not yet stamped
    "delivered_after_signal",
    "diverging_components",  # members of one daemon view went different ways
    "diverted_transition",  # a daemon was promised one daemon view and installed another
    "dropped_unreliable",
    "early_weak_delivery",  # a weak bundle before an undelivered one of a lower stamp
    "empty_transitional_overlap",  # strangers merged
    "join_in_transition",
    "late_join",  # asked for in one daemon view, effective in a later one
    "late_merge",  # components that reach each other stayed apart for a while
    "late_stamp",  # a bundle was stamped below one that stood in the order already
    "leave_in_transition",
    "lost_message",  # a stamped bundle did not survive in some component
    "message_carried_over",  # taken in one daemon view, stamped in a later one
    "needless_split",
    "other_side",  # a join, or an agreed bundle behind one, behind the signal here and not behind it elsewhere
    "overtaken_change",  # a weak bundle before a change of its group, for all
    "paused_excluded",
    "safe_after_signal",
    "signal_without_messages",
    "skipped_hole",  # a bundle was delivered although one below it was lost
    "skipped_view",  # a daemon view gave no group views at some members
    "view_split_weak_message",  # a weak bundle in different views at two members
)
"""Every kind of free choice that the oracle counts in ``taken``."""


class OracleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Delays are the largest; each one is drawn anew. Chances are per occasion."""

    step_us_max: int = 8_000
    """A daemon that has something to do does some of it within this time."""
    lag_factor_max: int = 8
    """Before the end is stable, a daemon may take so many times as long."""
    form_us_max: int = 30_000
    """After a change, new daemon views form within this time, or a part of them."""
    patience_us_max: int = 200_000
    """A paused daemon is excluded within this time, if nothing excluded it before."""
    disturb_every: int = 400
    """About so many requests lie between needless view changes; 0 means none."""
    batch_max: int = 12
    """A step delivers up to this many bundles, or half of the backlog if that is more."""
    early_window: int = 8
    """So far beyond its place in the order a daemon looks for weak bundles to deliver early."""
    hold_chance: float = 0.2
    early_chance: float = 0.35
    drop_chance: float = 0.1
    pending_max: int = 65_536
    """Requests that a daemon holds unstamped; more are refused."""

    @property
    def settle_within_us(self) -> int:
        """After `Stabilised` and the last request, nothing is armed any more within this time.

        Two rounds of forming (the first may find daemons in transition), and eight steps: end the old transition, make
        the new one, merge group states, stamp, deliver, and three for SAFE bundles to become stable and be delivered.
        """
        return 2 * self.form_us_max + 8 * self.step_us_max
