"""An accelerator in a SoC of LiteX: its registers on the SoC's bus, its interrupt, and CSRs.  Needs the extra `litex`.

    fbnn_hw.litex.add(soc, "rtl_out/0.5mb-10c-generic-...")

docs/integration.md, "LiteX", says what software finds.
"""

import json
from pathlib import Path
from typing import Any

from .base import extras
from .base.errors import UsageError
from .design import Design
from .design.integration import WISHBONE
from .machine.registers import ADDRESS_BITS

migen = extras.load("migen", "litex", "fbnn_hw.litex")
wishbone, stream, csr, events, soc_parts = (
    extras.load(f"litex.soc.{name}", "litex", "fbnn_hw.litex") for name in
    ("interconnect.wishbone", "interconnect.stream", "interconnect.csr", "interconnect.csr_eventmanager", "integration.soc"))


class Accelerator(migen.Module, csr.AutoCSR):
    """The module `accelerator_wb` of a design's folder, and its files for the platform.

    Parameters
    ----------
    platform : litex GenericPlatform
        Takes the Verilog, and the image of the weights where they are a memory.
    folder : str or Path
        What `generate --wrapper wishbone` wrote.

    Attributes
    ----------
    bus : wishbone.Interface
        Of 32 bits, with addresses of words: the registers of registers.md.
    ev : EventManager
        Its one source is the level `irq_o`; the bits of INTERRUPT choose what raises it.
    config : CSRStatus
        The configuration id, which names the hardware.
    weights : stream.Endpoint, restart : Signal
        Where weights are streamed, `s_axis_weights` and `restart` as docs/processor.md has them.
    image : stream.Endpoint
        With --wrapper wishbone-dma, `s_axis_image`: the bytes of an image, `last` with the last one.

    Raises UsageError where the folder has no such wrapper, InputError where it is none of a design.
    """

    def __init__(self, platform: Any, folder: str | Path) -> None:
        self.design = design = Design(folder)
        path = design.folder.resolve()
        if not (path / f"{WISHBONE}.v").exists():
            raise UsageError(f"{design.folder}: has no {WISHBONE}.v, expected a design made with fbnn-hw generate --wrapper wishbone")
        self.bus = bus = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.submodules.ev = events.EventManager()
        self.ev.level = events.EventSourceLevel(description="a result is there, or a command ended, as INTERRUPT chooses")
        self.ev.finalize()
        self.config = csr.CSRStatus(32, reset=int(design.config_id, 16), description="The configuration id of the accelerator.")
        ports = {
            "i_wb_clk_i": migen.ClockSignal(), "i_wb_rst_i": migen.ResetSignal(), "i_wb_cyc_i": bus.cyc, "i_wb_stb_i": bus.stb,
            "i_wb_we_i": bus.we, "i_wb_adr_i": migen.Cat(migen.Constant(0, 2), bus.adr[:ADDRESS_BITS - 2]), "i_wb_sel_i": bus.sel,
            "i_wb_dat_i": bus.dat_w, "o_wb_dat_o": bus.dat_r, "o_wb_ack_o": bus.ack, "o_irq_o": self.ev.level.trigger}
        if design.config.weights == "stream":
            self.weights, self.restart = stream.Endpoint([("data", design.config.beat_bits)]), migen.Signal()
            ports |= {"i_s_axis_weights_tdata": self.weights.data, "i_s_axis_weights_tvalid": self.weights.valid,
                      "o_s_axis_weights_tready": self.weights.ready, "o_restart": self.restart}
        if json.loads(design.read("registers.json"))["streams"]:
            self.image = stream.Endpoint([("data", 8)])
            ports |= {"i_s_axis_image_tdata": self.image.data, "i_s_axis_image_tvalid": self.image.valid,
                      "i_s_axis_image_tlast": self.image.last, "o_s_axis_image_tready": self.image.ready}
        self.specials += migen.Instance(WISHBONE, **ports)
        platform.add_source(str(path / f"{WISHBONE}.v"))
        platform.add_source(str(path / "accelerator.v"))
        if design.config.way == "memory":
            platform.add_source(str(path / "weights.hex"))


def add(soc: Any, folder: str | Path, name: str = "fbnn", origin: int | None = None) -> Accelerator:
    """Add the accelerator of a folder to a SoC: `Accelerator`, a region of its bus at `origin`, or where there is room, and its interrupt.

    The software then has NAME_BASE in mem.h, which is `bus` of the driver, and NAME_INTERRUPT in soc.h.
    """
    module = Accelerator(soc.platform, folder)
    soc.add_module(name=name, module=module)
    soc.bus.add_slave(name, module.bus, soc_parts.SoCRegion(origin=origin, size=1 << ADDRESS_BITS, cached=False))
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    return module
