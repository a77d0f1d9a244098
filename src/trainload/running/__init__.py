"""The engine of every loader: order, random numbers, cut, state, ranks, threads. Knows neither product."""
