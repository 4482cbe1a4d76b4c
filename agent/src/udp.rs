//! Stages that send values by plain UDP, and take them: datagrams as DiMMon's agents send them, or our own triples. They are
//! neither sealed nor vouched for, so they are taken from configured addresses alone, and the node's own file names the ports.
//! What the bytes are is in `starfarm_agent_core::dimmon`.

mod receive;
mod send;
mod settings;

use starfarm_agent_core::{Module, Type};

/// These stages.
pub(crate) const UDP: [Module; 2] = [
    Module {
        name: "udp_receive",
        types: &[Type { name: "udp_receive", new: &|| Box::<receive::UdpReceive>::default() }],
    },
    Module {
        name: "udp_send",
        types: &[Type { name: "udp_send", new: &|| Box::<send::UdpSend>::default() }],
    },
];
