"""The sensors of cameras: their frames, their pins, and the registers that are written once after reset.

Exposure, gain and white balance are the sensors' own and stay automatic.  Nothing here was tried on a sensor.

Sources.  OV7670: OmniVision's data sheet and Implementation Guide of the OV7670/OV7171; the values of gamma, colours, exposure and white
balance, and CLKRC's factor, are those of Linux' driver, drivers/media/i2c/ov7670.c; QVGA by the scaler and its window as public drivers
for microcontrollers have them.  HM01B0: Himax's data sheet, and its settings as public drivers state them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Register:
    """A write.  number: of 8 bits, or of 16, as the sensor has them.  A register that is not written keeps the value of its reset."""

    number: int
    value: int
    name: str
    meaning: str


@dataclass(frozen=True)
class Sensor:
    """A sensor with its registers set.

    address: the byte that begins a write.  number_bytes: of a register's number.  width, height: pixels of a frame.  grey: a byte a
    pixel, else RGB565 in two, the high one first.  href: its level within a line.  vsync: its level between two frames.  xclk_hz, pclk_hz,
    frames: clock in, clock out and frames/s with these registers.
    """

    name: str
    address: int
    number_bytes: int
    width: int
    height: int
    grey: bool
    href: int
    vsync: int
    xclk_hz: float
    pclk_hz: float
    frames: float
    registers: tuple[Register, ...]

    @property
    def writes(self):
        """The bytes of each write."""
        return [bytes([self.address, *entry.number.to_bytes(self.number_bytes, "big"), entry.value]) for entry in self.registers]


def _run(first, values, name, meaning):
    """Registers one after the other, named by a number from 1 on."""
    return [Register(first + i, value, f"{name}{i + 1}", meaning) for i, value in enumerate(bytes.fromhex(values))]


OV7670 = Sensor(
    name="ov7670", address=0x42, number_bytes=1, width=320, height=240, grey=False, href=1, vsync=1,
    xclk_hz=12e6, pclk_hz=12e6, frames=24e6 / (784 * 510 * 2), registers=(
        Register(0x12, 0x80, "COM7", "reset of all registers"),
        Register(0x6B, 0x4A, "DBLV", "PLL at four times XCLK; the regulator stays on"),
        Register(0x11, 0x01, "CLKRC", "the PLL's clock divided by two: 24 MHz inside, of an XCLK of 12 MHz"),
        Register(0x12, 0x04, "COM7", "RGB, with the timing of VGA"),
        Register(0x40, 0xD0, "COM15", "RGB565, values from 00 to FF"),
        Register(0x0C, 0x04, "COM3", "scaling on"),
        Register(0x3E, 0x19, "COM14", "scaling by these registers; PCLK divided by two, 12 MHz"),
        Register(0x72, 0x11, "SCALING_DCWCTR", "half the columns, half the rows: QVGA"),
        Register(0x73, 0xF1, "SCALING_PCLK_DIV", "the scaler's clock divided by two"),
        Register(0x17, 0x16, "HSTART", "first column, 180: high bits"),
        Register(0x18, 0x04, "HSTOP", "column after the last one, 36 of the next line: high bits"),
        Register(0x32, 0x24, "HREF", "low bits of both columns"),
        Register(0x19, 0x02, "VSTART", "first row, 10: high bits"),
        Register(0x1A, 0x7A, "VSTOP", "row after the last one, 490: high bits"),
        Register(0x03, 0x0A, "VREF", "low bits of both rows"),
        Register(0x13, 0xE0, "COM8", "gain, white balance and exposure stand while they are set"),
        Register(0x14, 0x38, "COM9", "gain at most 16"),
        Register(0x24, 0x95, "AEW", "brightness above which exposure falls"),
        Register(0x25, 0x33, "AEB", "brightness below which exposure rises"),
        Register(0x26, 0xE3, "VPT", "limits beyond which exposure moves fast"),
        Register(0x3B, 0x12, "COM11", "frames keep their rate; 50 or 60 Hz found out; less exposure in strong light"),
        Register(0x9D, 0x4C, "BD50ST", "exposure step in lamps of 50 Hz"),
        Register(0x9E, 0x3F, "BD60ST", "exposure step in lamps of 60 Hz"),
        Register(0xA5, 0x05, "BD50MAX", "exposure steps at most, 50 Hz"),
        Register(0xAB, 0x07, "BD60MAX", "exposure steps at most, 60 Hz"),
        Register(0x7A, 0x20, "SLOP", "slope of the gamma curve's last piece"),
        *_run(0x7B, "10 1e 35 5a 69 76 80 88 8f 96 a3 af c4 d7 e8", "GAM", "a point of the gamma curve"),
        *_run(0x4F, "b3 b3 00 3d a7 e4", "MTX", "a factor of the colour matrix, for RGB"),
        Register(0x58, 0x9E, "MTXS", "signs of the colour matrix; contrast centre automatic"),
        Register(0x3D, 0xC0, "COM13", "gamma on, saturation automatic"),
        *_run(0x43, "0a f0 34 58 28 3a", "AWBC", "limits of white balance"),
        *_run(0x59, "88 88 44 67 49 0e", "AWBD", "limits of white balance, which the data sheet reserves"),
        *_run(0x6C, "0a 55 11 9f", "AWBCTR", "control of white balance"),
        Register(0x41, 0x38, "COM16", "white balance's gains on; edges and noise automatic"),
        Register(0xB0, 0x84, "RSVD", "reserved; colours are wrong without it"),
        Register(0x13, 0xE7, "COM8", "gain, white balance and exposure automatic, in fast and large steps, against flicker"),
        Register(0x11, 0x01, "CLKRC", "once more: with RGB565 pictures are poor unless it comes last")))

HM01B0 = Sensor(
    name="hm01b0", address=0x48, number_bytes=2, width=324, height=244, grey=True, href=1, vsync=0,
    xclk_hz=12e6, pclk_hz=6e6, frames=6e6 / (376 * 260), registers=(
        Register(0x0103, 0x00, "SW_RESET", "reset of all registers"),
        Register(0x0100, 0x00, "MODE_SELECT", "standby"),
        Register(0x1003, 0x08, "BLC_TGT", "black level"),
        Register(0x1007, 0x08, "BLC2_TGT", "black level of the lines"),
        Register(0x3044, 0x0A, "ANA", "longer settling of the sampling"),
        Register(0x3045, 0x00, "ANA", "sampling and reset alike"),
        Register(0x3047, 0x0A, "ANA", "longer settling of the sampling"),
        *_run(0x3050, "c0 42 50 00 03 f7 f8 29 1f", "ANA", "analogue setting of Himax's"),
        Register(0x3064, 0x00, "ANA", "analogue setting of Himax's"),
        Register(0x3065, 0x04, "ANA", "pads without pull"),
        Register(0x1000, 0x43, "BLC_CFG", "black level correction on"),
        Register(0x1001, 0x40, "BLC_DITHER", "its dithering"),
        Register(0x1002, 0x32, "BLC_DARKPIXEL", "threshold of dark pixels"),
        Register(0x0350, 0x7F, "DGAIN_CONTROL", "digital gain on"),
        Register(0x1006, 0x01, "BLI_EN", "black level of the lines on"),
        Register(0x1008, 0x01, "DPC_CTRL", "defect pixels corrected, without colours"),
        *_run(0x1009, "a0 60 90 40", "DPC_THR", "threshold of a defect pixel: hot and cold clusters, hot and cold ones"),
        Register(0x1012, 0x00, "VSYNC_HSYNC_SHIFT", "FVLD and LVLD not moved"),
        Register(0x2000, 0x07, "STATISTIC_CTRL", "statistics for the exposure"),
        Register(0x2100, 0x01, "AE_CTRL", "exposure automatic"),
        Register(0x2101, 0x64, "AE_TARGET_MEAN", "mean brightness"),
        Register(0x2105, 0x01, "MAX_INTG_H", "longest exposure, 258 lines: high byte"),
        Register(0x2106, 0x02, "MAX_INTG_L", "its low byte"),
        Register(0x2108, 0x04, "MAX_AGAIN_FULL", "analogue gain at most 16"),
        Register(0x210B, 0xC0, "MAX_DGAIN", "digital gain at most 3"),
        Register(0x2150, 0x00, "MD_CTRL", "no motion detection"),
        Register(0x0340, 0x01, "FRAME_LENGTH_LINES_H", "lines of a frame, 260: high byte"),
        Register(0x0341, 0x04, "FRAME_LENGTH_LINES_L", "its low byte"),
        Register(0x0342, 0x01, "LINE_LENGTH_PCK_H", "clocks of a line, 376: high byte"),
        Register(0x0343, 0x78, "LINE_LENGTH_PCK_L", "its low byte"),
        Register(0x0383, 0x01, "READOUT_X", "every column"),
        Register(0x0387, 0x01, "READOUT_Y", "every row"),
        Register(0x0390, 0x00, "BINNING_MODE", "no binning"),
        Register(0x3010, 0x01, "QVGA_WIN_EN", "324 x 244 of its 324 x 324 pixels"),
        Register(0x3011, 0x70, "SIX_BIT_MODE_EN", "eight bits a pixel"),
        Register(0x3059, 0x02, "BIT_CONTROL", "on eight lines"),
        Register(0x3060, 0x0A, "OSC_CLK_DIV", "pixels at half of MCLK, PCLK not gated"),
        Register(0x0104, 0x01, "GRP_PARAM_HOLD", "take over what was written"),
        Register(0x0100, 0x01, "MODE_SELECT", "frames without end")))

SENSORS = {sensor.name: sensor for sensor in (OV7670, HM01B0)}
