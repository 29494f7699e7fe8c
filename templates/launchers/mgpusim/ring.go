// The ring all-reduce: gradients of which each GPU has a part are added up (simgen/workload/sharding.py).

package main

import "github.com/sarchlab/mgpusim/v4/amd/driver"

// reduction returns the rounds that add up the gradients that a step wrote; none where it wrote none.
func (m *machine) reduction(s *sharding, at int, kernels map[string]*kernel) [][]*dispatch {
	var rounds [][]*dispatch
	for _, r := range s.Reductions[at] {
		rounds = append(rounds, m.ring(s, r, kernels)...)
	}
	return rounds
}

// ring adds up one gradient. Chunks without elements need no launch.
func (m *machine) ring(s *sharding, r reduction, kernels map[string]*kernel) [][]*dispatch {
	var rounds [][]*dispatch
	n := len(m.gpus)
	place := func(gpu int, name string, c chunk) driver.Ptr {
		return m.gpus[gpu].arena + driver.Ptr(s.Workload.buffer(name).Offset+4*c.Start)
	}
	stage := func(chunkOf func(gpu int) int, prepare func(gpu, before int, c chunk) dispatch) {
		var dispatches []*dispatch
		for gpu := range n {
			if c := r.Chunks[chunkOf(gpu)]; c.Size > 0 {
				d := prepare(gpu, (gpu+n-1)%n, c)
				d.gpu, d.grid = &m.gpus[gpu], [3]uint32{c.Groups, 1, 1}
				dispatches = append(dispatches, &d)
			}
		}
		if len(dispatches) > 0 {
			rounds = append(rounds, dispatches)
		}
	}
	for i := range n - 1 {
		sums, to := r.Partial, r.Partial // of the neighbour, and here
		if i == 0 {
			sums = r.Part
		}
		if i == n-2 {
			to = r.Result
		}
		stage(func(gpu int) int { return (gpu + 2*n - i - 1) % n }, func(gpu, before int, c chunk) dispatch {
			own := place(gpu, r.Part, c)
			return dispatch{kernel: kernels[c.Add],
				args: []driver.Ptr{own, place(before, sums, c), place(gpu, to, c)}}
		})
	}
	for i := range n - 1 {
		stage(func(gpu int) int { return (gpu + n - i) % n }, func(gpu, before int, c chunk) dispatch {
			return dispatch{kernel: kernels[c.Copy],
				args: []driver.Ptr{place(before, r.Result, c), place(gpu, r.Result, c)}}
		})
	}
	return rounds
}
