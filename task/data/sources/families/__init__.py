"""What do several data sets share: directories, file trees, torchvision's readers, domains?"""
