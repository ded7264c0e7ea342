"""The same test of the counter with the mistake. It fails, says at which seed, and how to see that seed again."""

from examples.replicated_counter.forgetful import ForgetfulCounter
from examples.replicated_counter.scenario import count_through_a_storm

from isotone.testing import Cluster, seeds


@seeds(100)
async def test_no_confirmed_increment_is_lost(cluster: Cluster) -> None:
    assert await count_through_a_storm(ForgetfulCounter, cluster)
