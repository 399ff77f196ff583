"""The computer's end of the serial line: ports (`transport`), requests (`client`), the state of a learner (`chip`).

`fbnn_hw.Board` puts a design's names and its learner's twin on top.  `protocol` defines the messages.
"""
