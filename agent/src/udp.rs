//! Stages that send values by plain UDP, and take them: datagrams as DiMMon's agents send them, or our own triples. They are
//! neither sealed nor vouched for, so they are taken from configured addresses alone, and the node's own file names the ports.
//! What the bytes are is in `starfarm_agent_core::dimmon`.

mod receive;
mod send;

use std::net::SocketAddr;

use starfarm_agent_core::dimmon::{ByteOrder, IdTable};
use starfarm_agent_core::{Module, Type};

/// These stages.
pub(crate) const UDP: [Module; 2] = [
    Module {
        name: "udp_receive",
        types: &[Type { name: "udp_receive", new: || Box::<receive::UdpReceive>::default() }],
    },
    Module { name: "udp_send", types: &[Type { name: "udp_send", new: || Box::<send::UdpSend>::default() }] },
];

/// What the bytes of a datagram are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Format {
    /// DiMMon's.
    #[default]
    Dimmon,
    /// The triples of a message, as links have them.
    Triples,
}

/// What both stages are told of datagrams.
#[derive(Default)]
struct Wire {
    format: Format,
    order: ByteOrder,
    ids: IdTable,
}

impl Wire {
    const KEYS: &str = "`format`, `order`, `ids`";

    /// Takes a setting; false where it is none of these.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "format" => {
                self.format = match value {
                    "dimmon" => Format::Dimmon,
                    "triples" => Format::Triples,
                    _ => return Err(refusal(key, value, "`dimmon` or `triples`")),
                }
            }
            "order" => {
                self.order = match value {
                    "host" => ByteOrder::Host,
                    "little" => ByteOrder::Little,
                    "big" => ByteOrder::Big,
                    _ => return Err(refusal(key, value, "`host`, `little` or `big`")),
                }
            }
            "ids" => self.ids = IdTable::parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn refusal(key: &str, value: &str, right: &str) -> String {
    format!("`{key}` is {right}, not `{}`", shown(value))
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// An address and a port. No names: nobody waits for a name server here.
fn address(key: &str, value: &str) -> Result<SocketAddr, String> {
    let address = value.trim().parse();
    address.map_err(|_| refusal(key, value, "an address and a port, as `10.0.0.9:3457` or `[fd00::9]:3457`"))
}

fn unknown(of: &str, key: &str, own: &str) -> String {
    format!("`{of}` has no setting `{}`: it has {own}, {}", shown(key), Wire::KEYS)
}
