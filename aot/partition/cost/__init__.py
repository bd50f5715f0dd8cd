# SPDX-License-Identifier: Apache-2.0
"""The cheapest partition.

The problem. A match of some backend's pattern is a tile. Choose tiles that cover every node once,
and put those of vendors into regions of one vendor each, so that the graph of regions has no cycle
and every region is within the limits of its vendor. What the user says of nodes and regions is
done. The least sum is wanted, in nanoseconds, of

- the tiles, measured or estimated (`costs.py`);
- entering each region (`Speed.enter_ns`);
- every value that enters or leaves a region of a vendor with memory of its own, once per value and
  region (`Speed.border_bytes_per_ns`); a view counts as the value that it shows;
- every conversion of a value to another layout, once per value and layout.

`tiles.py` makes the problem of a graph, `search.py` solves it, limits (`loads.py`) and all, exactly
where it can keep every way to begin, and returns a bound that no partition is below. Where a search
that is cut short finds nothing within the limits, regions are made without and cut. `pricing.py`
says what is proven of a partition that is ready: it is the cheapest where it costs as much as the
bound.
"""
