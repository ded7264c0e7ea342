"""What Isotone promises: properties as data, streaming checkers, bounds, and the executable specification."""
