"""Disks that are lost, explored to the end: numbers of reachable states are pinned."""

from __future__ import annotations

from tests.model.corel_identity_model import IdentityModel


def test_what_was_told_green_survives_the_loss_of_a_minority_of_disks() -> None:
    assert IdentityModel(3).explore() == (1_034, "")


def test_an_empty_disk_that_counts_by_its_name_loses_it() -> None:
    _, wrong = IdentityModel(3, by_name=True).explore()
    assert "were told green" in wrong


def test_a_log_that_begins_where_not_all_have_met_loses_it() -> None:
    """Who was away takes an empty disk for the log of its name."""
    _, wrong = IdentityModel(3, begins_anywhere=True).explore()
    assert "were told green" in wrong


def test_more_than_the_rule_survives_is_lost() -> None:
    """So the model does see losses."""
    _, wrong = IdentityModel(3, lost_max=3).explore()
    assert "were told green" in wrong
