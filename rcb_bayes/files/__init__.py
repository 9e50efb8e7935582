"""Files as data: a format with a version, a digest of the content, one writer, one reader, a schema.

Plans, agents, audits and stored cells are data, never code. Each file names its format and version and carries the
SHA-256 of its content, so that a changed digit is refused; each is written beside its place and moved there, so that an
interrupted write leaves the old file. Because anyone can compute a digest, the schema refuses nonsense by itself.

The schema library is msgspec: it is strict unless told otherwise (text is no number, nothing is added or left out), its
types carry ranges, it derives from the annotations that our dataclasses have anyway, and it is imported in
milliseconds. Pydantic coerces by default and takes a fifth of a second to import, cattrs checks no ranges. zarr, by way
of ArviZ, brings msgspec along already.

- ``envelope``: format, version, digest; reading and writing text
- ``records``: dataclasses as JSON and back, checked
- ``netcdf``: the same envelope around netCDF files
- ``store``: folders of results that a run is resumed from
- ``tables``: comma-separated files, read with the numbers of their lines

What is written for other programs or for people has no digest: answers of ``--json``, tables, texts, figures, pages.
A recommender's log is the one file that is written line by line; everything else goes through ``write_atomically``.
"""

from rcb_bayes.files.envelope import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.netcdf import read_netcdf, write_netcdf
from rcb_bayes.files.records import Records

__all__ = [
    "Format",
    "Records",
    "as_text",
    "content_of",
    "read_netcdf",
    "read_text",
    "refused",
    "write_atomically",
    "write_netcdf",
]
