//! Forwarding: what moves between groups, and what each side remembers of it.

use domain::{
    ArrivalRow, Arrive, ArrivedShipment, Arriving, Destination, ForgetArrivals, ForwardCommand,
    Forwarding, Refused, Ship, ShipmentRow, Shipped, Travel, Unpark,
};

use crate::codec::{choice, record};

choice!(ForwardCommand {
    1 => Ship(ship),
    2 => Arrive(arrive),
    3 => Shipped(shipped),
    4 => Unpark(unpark),
    5 => ForgetArrivals(forget),
    6 => ArriveBehind { cut, arrive },
});
record!(Ship { queue, to, destination, count_max, bytes_max, again });
record!(Arrive { source, serial, settled_to, follows, destination, count, skipped, messages });
record!(Arriving { message, travel });
record!(Shipped { queue, serial, refused });
record!(Unpark { queue, count_max });
record!(ForgetArrivals { source, destination });
record!(Refused { first, count, reason, description });
record!(Travel { enqueued_sequence, hops, dead_letter_source });
record!(Destination { entity, group });
record!(ShipmentRow { destination, numbers });
record!(ArrivalRow { serial, at, shipments });
record!(ArrivedShipment { count, done, refused });
record!(Forwarding { serial, in_transit, parked, stuck });
