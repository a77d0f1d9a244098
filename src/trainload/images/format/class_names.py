"""The class names of MNIST and CIFAR in label order, as the authors' batches.meta.txt and *_label_names.txt give them.

A DTS file of arrays has a 256-byte header region and no room for names; readers and packers take them from here.
"""

from __future__ import annotations

from trainload.images.format.dts import CIFAR10, CIFAR100, MNIST

_CIFAR100_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""

CLASS_NAMES: dict[str, tuple[str, ...]] = {
    MNIST: tuple("0123456789"),
    CIFAR10: ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    CIFAR100: tuple(_CIFAR100_FINE.split()),
}
assert len(CLASS_NAMES[CIFAR100]) == 100
