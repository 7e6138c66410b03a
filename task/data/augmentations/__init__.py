"""How are training images augmented, by one augmentation per file?"""
