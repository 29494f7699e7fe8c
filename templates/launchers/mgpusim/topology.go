// Topologies: which switches lie between the GPUs of the timing model, by name.

package main

import (
	"github.com/sarchlab/akita/v4/noc/networking/networkconnector"
	"github.com/sarchlab/akita/v4/sim"
)

const (
	flitNbytes = 34 // that a link moves in a cycle of 1 GHz: 16 lanes of PCIe 4, as MGPUSim counts them
	room       = 16 // flits that wait at an end of a link of MGPUSim's
)

// topologies tell which switches the one of GPU `at` is joined to, all of them earlier; -1 is the one of
// the CPU. A GPU without any is plugged in where the GPU before it is. Chains and deeper trees of
// switches are not there: with 4 GPUs, the network of akita 4.9 stood still in them.
var topologies = map[string]func(at int) []int{
	"pairs": func(at int) []int { // two at a switch, each of these at the CPU's, as MGPUSim has it
		if at%2 == 1 {
			return nil
		}
		return []int{-1}
	},
	"star": func(at int) []int { // all at one
		if at > 0 {
			return nil
		}
		return []int{-1}
	},
	"full": func(at int) []int { // a link between any two
		joined := []int{-1}
		for other := range at {
			joined = append(joined, other)
		}
		return joined
	},
}

// network is a connector with the links of MGPUSim's PCIe.
type network struct {
	networkconnector.Connector
	latency int   // cycles of a switch
	root    int   // the CPU's switch
	of      []int // the switch of each GPU
}

func newNetwork(engine sim.Engine, latency int, cpu []sim.Port) *network {
	n := &network{Connector: networkconnector.MakeConnector().WithEngine(engine).WithDefaultFreq(slowClock).
		WithFlitSize(flitNbytes), latency: latency}
	n.NewNetwork("PCIe")
	n.root = n.AddSwitch()
	n.plugIn(n.root, cpu)
	return n
}

// add plugs the next GPU in.
func (n *network) add(topology string, ports []sim.Port) {
	at := len(n.of)
	joined := topologies[topology](at)
	if len(joined) == 0 {
		n.of = append(n.of, n.of[at-1])
	} else {
		n.of = append(n.of, n.AddSwitch())
	}
	end := n.end()
	for _, other := range joined {
		base := n.root
		if other >= 0 {
			base = n.of[other]
		}
		n.ConnectSwitches(base, n.of[at], networkconnector.SwitchToSwitchLinkParameter{
			LeftEndParam: end, RightEndParam: end,
			LinkParam: networkconnector.LinkParameter{IsIdeal: true, Frequency: slowClock},
		})
	}
	n.plugIn(n.of[at], ports)
}

func (n *network) plugIn(place int, ports []sim.Port) {
	n.ConnectDevice(place, ports, networkconnector.DeviceToSwitchLinkParameter{
		DeviceEndParam: networkconnector.LinkEndDeviceParameter{
			IncomingBufSize: room, OutgoingBufSize: room, NumInputChannel: 1, NumOutputChannel: 1,
		},
		SwitchEndParam: n.end(),
		LinkParam:      networkconnector.LinkParameter{IsIdeal: true, Frequency: slowClock},
	})
}

func (n *network) end() networkconnector.LinkEndSwitchParameter {
	return networkconnector.LinkEndSwitchParameter{
		IncomingBufSize: room, OutgoingBufSize: room, Latency: n.latency, NumInputChannel: 1, NumOutputChannel: 1,
	}
}
