"""The words of the record on where noise comes from."""

FROM_SYSTEM = "secret: drawn from the operating system, and stored nowhere"
FROM_SEED = (
    "reproducible: it follows from the seed, so anyone who knows the seed can remove it; the run "
    "protects nobody and is a study"
)
SEED_IS_KNOWN = "the seed, which clients and the record contain: with it the noise can be removed"
NOT_TOLD = (
    "with privacy.unit=example or client no client tells how many images it has: 2 stands for any "
    "number"
)
