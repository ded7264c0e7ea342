"""The counter under a hundred storms: ``pytest examples/replicated_counter/test_counter.py``."""

from examples.replicated_counter.counter import Counter
from examples.replicated_counter.scenario import count_through_a_storm

from isotone.testing import Cluster, seeds


@seeds(100)
async def test_no_confirmed_increment_is_lost(cluster: Cluster) -> None:
    assert await count_through_a_storm(Counter, cluster)
