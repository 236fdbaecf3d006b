"""Stands in for the module of that name: what upstream's tests fetch from the hub comes from its local stand-in."""
import os
import urllib.request


def download(url, out):
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    local = url.replace("https://huggingface.co", os.environ["MODEL_ENDPOINT"])
    urllib.request.urlretrieve(local, out)
