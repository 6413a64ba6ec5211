"""Models of libraries, by name (`timm/resnet18`) or from a folder: one file a library, which alone imports it.

A library's module has `describe(model, name)`, which makes a model's `Description`, `build(description)`, which makes
the network, and `search(text)`, which lists names. Descriptions are kept beside the imported models, so that only
describing, building and searching import a library.
"""
