"""The contract that every part of Isotone stands on: events, actions, ids, views, services, bundles, boundary B4."""
