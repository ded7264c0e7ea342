"""Every property of `isotone.spec.properties` over traces of any size, as group-bys, windows and joins."""
