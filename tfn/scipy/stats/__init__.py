"""Probability distributions: densities and distribution functions, one file for each.

Source: N. L. Johnson, S. Kotz and N. Balakrishnan, "Continuous univariate distributions", 1994;
N. L. Johnson, A. W. Kemp and S. Kotz, "Univariate discrete distributions", 2005.

Files in reading order:

location_scale       points in units of the scale, and back
distribution         functions that follow from the density of a distribution
samples              the most frequent value, ranks, the error of the mean
kde                  densities estimated from samples by Gaussian kernels
bernoulli            the Bernoulli distribution
beta                 the beta distribution
betabinom            the beta-binomial distribution
binom                the binomial distribution
cauchy               the Cauchy distribution
chi2                 the chi-squared distribution
dirichlet            the Dirichlet distribution
expon                the exponential distribution
gamma                the gamma distribution
gennorm              the generalised normal distribution
geom                 the geometric distribution
gumbel_l             the Gumbel distribution of smallest values
gumbel_r             the Gumbel distribution of largest values
laplace              the Laplace distribution
logistic             the logistic distribution
multinomial          the multinomial distribution
multivariate_normal  the normal distribution of vectors
nbinom               the negative binomial distribution
norm                 the normal distribution
pareto               the Pareto distribution
poisson              the Poisson distribution
t                    Student's t distribution
truncnorm            the truncated normal distribution
uniform              the uniform distribution
vonmises             the von Mises distribution, on the circle
wrapcauchy           the wrapped Cauchy distribution, on the circle
"""

from tfn.scipy.stats import bernoulli as bernoulli
from tfn.scipy.stats import beta as beta
from tfn.scipy.stats import betabinom as betabinom
from tfn.scipy.stats import binom as binom
from tfn.scipy.stats import cauchy as cauchy
from tfn.scipy.stats import chi2 as chi2
from tfn.scipy.stats import dirichlet as dirichlet
from tfn.scipy.stats import expon as expon
from tfn.scipy.stats import gamma as gamma
from tfn.scipy.stats import gennorm as gennorm
from tfn.scipy.stats import geom as geom
from tfn.scipy.stats import gumbel_l as gumbel_l
from tfn.scipy.stats import gumbel_r as gumbel_r
from tfn.scipy.stats import laplace as laplace
from tfn.scipy.stats import logistic as logistic
from tfn.scipy.stats import multinomial as multinomial
from tfn.scipy.stats import multivariate_normal as multivariate_normal
from tfn.scipy.stats import nbinom as nbinom
from tfn.scipy.stats import norm as norm
from tfn.scipy.stats import pareto as pareto
from tfn.scipy.stats import poisson as poisson
from tfn.scipy.stats import t as t
from tfn.scipy.stats import truncnorm as truncnorm
from tfn.scipy.stats import uniform as uniform
from tfn.scipy.stats import vonmises as vonmises
from tfn.scipy.stats import wrapcauchy as wrapcauchy
from tfn.scipy.stats.kde import gaussian_kde as gaussian_kde
from tfn.scipy.stats.samples import mode as mode
from tfn.scipy.stats.samples import rankdata as rankdata
from tfn.scipy.stats.samples import sem as sem
