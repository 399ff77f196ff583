// The numbers of fbnn_hw/machine/protocol.py, written by docs/benchmarks/teach_page.py.

export const LINK_VERSION = 3;
export const SYNC = 251;
export const REPLY = 128;
export const ERROR = 255;
export const HEADER_BYTES = 5;
export const CRC_BYTES = 2;
export const CRC_POLYNOMIAL = 33800;
export const CRC_START = 65535;
export const LONGEST_PAYLOAD = 65535;
export const LONGEST_POKE = 255;
export const OPERAND_BYTES = 4;
export const IDENTITY_BYTES = 19;
export const STATUS_BYTES = 8;
export const LOGITS = 1;
export const LATENT = 2;
export const UNKNOWN = 4;
export const WORD_SIZES = [2, 4, 8, 16, 32, 64, 128];
export const Opcode = {"IDENTIFY": 1, "STATUS": 2, "CLASSIFY": 16, "SEE": 24, "LEARN": 33, "STORE": 34, "REHEARSE": 35, "FREEZE": 36, "RESET": 39, "PEEK": 48, "POKE": 56};
export const Space = {"BANKS": 0, "LABELS": 1, "COUNTS": 2, "PRESENTED": 3, "SCALARS": 4, "NOISE": 5, "MASK": 6, "PICK": 7};
export const Fault = {"1": {"name": "CRC", "repeat": true, "damaged": true}, "2": {"name": "OPCODE", "repeat": true, "damaged": true}, "3": {"name": "LENGTH", "repeat": true, "damaged": true}, "4": {"name": "TIMEOUT", "repeat": true, "damaged": true}, "5": {"name": "LINE", "repeat": true, "damaged": true}, "6": {"name": "BUSY", "repeat": true, "damaged": false}, "7": {"name": "RESULT", "repeat": true, "damaged": false}, "8": {"name": "LABEL", "repeat": false, "damaged": false}, "9": {"name": "FROZEN", "repeat": false, "damaged": false}, "10": {"name": "SAMPLE", "repeat": false, "damaged": false}};
