"""Signals in the manner of `scipy.signal`.  Files in reading order:

convolution  convolution and correlation in any number of axes, direct or by Fourier transforms
trends       removal of linear trends
windows      window functions by name
filters      recursive filters, in one direction and in both
spectra      short-time Fourier transforms, their inverse, and power spectra
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.signal.convolution import convolve as convolve
    from tfn.scipy.signal.convolution import convolve2d as convolve2d
    from tfn.scipy.signal.convolution import correlate as correlate
    from tfn.scipy.signal.convolution import correlate2d as correlate2d
    from tfn.scipy.signal.convolution import fftconvolve as fftconvolve
    from tfn.scipy.signal.filters import filtfilt as filtfilt
    from tfn.scipy.signal.filters import lfilter as lfilter
    from tfn.scipy.signal.filters import lfilter_zi as lfilter_zi
    from tfn.scipy.signal.filters import sosfilt as sosfilt
    from tfn.scipy.signal.filters import sosfilt_zi as sosfilt_zi
    from tfn.scipy.signal.filters import sosfiltfilt as sosfiltfilt
    from tfn.scipy.signal.spectra import csd as csd
    from tfn.scipy.signal.spectra import istft as istft
    from tfn.scipy.signal.spectra import stft as stft
    from tfn.scipy.signal.spectra import welch as welch
    from tfn.scipy.signal.trends import detrend as detrend
