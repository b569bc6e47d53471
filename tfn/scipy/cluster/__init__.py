"""Groups of points, in the manner of `scipy.cluster`.  The only file:

vq  vector quantization
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.cluster import vq as vq
