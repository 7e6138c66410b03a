"""Images of the user's own, whose classes and test set the user may choose."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from task.data.sources.base import Source, cleaned
from task.data.sources.families.directory_source import DirectorySource
from task.data.sources.families.no_images import NoImages
from task.errors import ConfigError, refuse
from task.registry import Names


@dataclass
class OwnImages(DirectorySource):
    """A directory of the user's own images.

    Attributes:
        classes: the class names in the order of their labels; None for the sorted names that the
            images have. Experiments with sites must set them, because all sites need the same
            classes.
        test_share: the share of each class and domain that is held out if the images have no test
            set.
        window: center and width, in rescaled values, of the grey values of DICOM files; None for
            the window in each file.
    """

    skips_bad_images: ClassVar = True
    looks_for_duplicates: ClassVar = True

    classes: Names | None
    test_share: float
    window: list[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 1:
            refuse(self, "test_share", "must be from 0 to 1")
        if self.window is not None and (len(self.window) != 2 or self.window[1] < 1):
            refuse(self, "window", "must be [center,width] with a width of 1 or more")
        if self.classes is None:
            return
        self.classes = classes = list(map(cleaned, self.classes))
        if len(set(classes)) < max(2, len(classes)):
            refuse(self, "classes", "must be at least two different names")
        if not all(name and name.isprintable() for name in classes):
            refuse(self, "classes", "each name must have characters, which can all be printed")

    def at_site(self, directory: str) -> Self:
        if self.classes is None:
            raise ConfigError(
                "data.classes", None, "all sites need the same classes: data.classes=[cat,dog]"
            )
        return replace(self, root=directory, test_share=0.0)

    def at_coordinator(self) -> Source:
        return self if self.root or not self.classes else NoImages(self.image_size, self.classes)
