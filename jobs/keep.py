"""Documents less those removed: the survivors, byte for byte.

Input: documents
Output: the lines of the documents whose keys are not in --removed, as they came
"""

from mapreduce.job import Job, LineProtocol
from mapreduce.options import BATCH

import numpy as np
from mrjob.step import MRStep

from lshlib.documents import record_keys


class Keep(Job):
    OUTPUT_PROTOCOL = LineProtocol

    def configure_args(self):
        super().configure_args()
        self.add_file_arg("--removed", help="sorted keys of the documents to leave out (.npy)")

    def steps(self):
        return [MRStep(mapper_init=self.start, mapper=self.collect_document, mapper_final=self.emit_kept)]

    def start(self):
        self.removed = np.load(self.options.removed, mmap_mode="r")
        self.lines, self.size = [], 0

    def collect_document(self, _, line):
        if line.strip():
            self.lines.append(line)
            self.size += len(line)
        return self.emit_kept() if self.size >= BATCH else None

    def emit_kept(self):
        lines = self.lines
        if len(self.removed):
            keys = record_keys(lines)
            places = np.searchsorted(self.removed, keys)
            places[places == len(self.removed)] = 0
            kept = np.flatnonzero(self.removed[places] != keys)
            lines = [lines[i] for i in kept.tolist()]
        self.count("kept", len(lines))
        self.lines, self.size = [], 0
        if lines:
            yield None, b"\n".join(lines)


if __name__ == "__main__":
    Keep.run()
