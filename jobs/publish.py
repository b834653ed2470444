"""Resolved lines of one kind, as a user reads them.

Input: lines `kind TAB json`, as `resolve.py` writes them
Output: the JSON of those of one kind
"""

from mapreduce.documents import LinesJob

from mrjob.step import MRStep


class Publish(LinesJob):
    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg("--kind", choices=("pair", "cluster"), help="the kind of lines to put out")

    def check_options(self):
        if self.options.kind is None:
            raise ValueError("--kind must be given, got none")

    def steps(self):
        return [MRStep(**self.document_mapper())]

    def map_lines(self, lines):
        """lines of all kinds -> the JSON of those of one kind, as one value"""
        start = self.options.kind.encode() + b"\t"
        chosen = [line[len(start) :] for line in lines if line.startswith(start)]
        if chosen:
            yield None, b"\n".join(chosen)


if __name__ == "__main__":
    Publish.run()
