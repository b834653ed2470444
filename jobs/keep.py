"""Documents less those removed: the survivors, byte for byte.

Input: documents
Output: the lines of the documents whose keys are not in --removed, as they came
"""

from mapreduce.documents import LinesJob
from mapreduce.options import add_document_options, settle_format

import numpy as np
from mrjob.step import MRStep

from lshlib.documents import record_keys


class Keep(LinesJob):
    def configure_args(self):
        super().configure_args()
        add_document_options(self)
        self.add_file_arg("--removed", help="sorted keys of the documents to leave out (.npy)")

    def check_options(self):
        if self.options.removed is None:
            raise ValueError("--removed must be given, got none")
        settle_format(self.options, self.options.args)

    def separator(self):
        return b"\t" if self.options.input_format == "tsv" else super().separator()

    def steps(self):
        return [MRStep(**self.document_mapper())]

    def map_lines(self, lines):
        """lines -> those to keep, as one value"""
        removed = np.load(self.options.removed, mmap_mode="r")
        lines = [line for line in lines if line.strip()]
        if len(removed):
            keys = record_keys(lines)
            places = np.searchsorted(removed, keys)
            places[places == len(removed)] = 0
            lines = [lines[i] for i in np.flatnonzero(removed[places] != keys).tolist()]
        self.count("kept", len(lines))
        if lines:
            yield None, b"\n".join(lines)


if __name__ == "__main__":
    Keep.run()
