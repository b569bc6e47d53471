"""Densities, probabilities and distribution functions, one file for each distribution.

places               what they are given, in units of the scale
bernoulli            the distribution of Bernoulli
beta                 the beta distribution
betabinom            the binomial distribution whose probability is beta distributed
binom                the binomial distribution
cauchy               the distribution of Cauchy
chi2                 the chi-squared distribution
dirichlet            the distribution of Dirichlet
expon                the exponential distribution
gamma                the gamma distribution
gennorm              the generalised normal distribution
geom                 the geometric distribution
gumbel_l             the distribution of Gumbel, of smallest values
gumbel_r             the distribution of Gumbel, of largest values
laplace              the distribution of Laplace
logistic             the logistic distribution
multinomial          the multinomial distribution
multivariate_normal  the normal distribution of vectors
nbinom               the negative binomial distribution
norm                 the normal distribution
pareto               the distribution of Pareto
poisson              the distribution of Poisson
t                    the distribution of Student
truncnorm            the normal distribution between a and b, in units of scale from loc
uniform              the uniform distribution, from loc to loc + scale
vonmises             the distribution of von Mises, on the circle
wrapcauchy           the distribution of Cauchy, wrapped around the circle
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
