// The all-reduce: sums of which each GPU has a part are added up (simgen/workload/sharding.py).

package main

import "github.com/sarchlab/mgpusim/v4/amd/driver"

// reduction returns the rounds that add up the sums that a step wrote; none where it wrote none.
func (m *machine) reduction(s *sharding, at int, kernels map[string]*kernel) [][]*dispatch {
	var rounds [][]*dispatch
	for _, r := range s.Reductions[at] {
		if r.Way == "tree" {
			rounds = append(rounds, m.tree(s, r, kernels)...)
		} else {
			rounds = append(rounds, m.ring(s, r, kernels)...)
		}
	}
	return rounds
}

// place returns where a GPU has a chunk of a buffer.
func (m *machine) place(s *sharding, gpu int, name string, c chunk) driver.Ptr {
	return m.gpus[gpu].arena + driver.Ptr(s.Workload.buffer(name).Offset+4*c.Start)
}

// ring adds up one of them. Chunks without elements need no launch.
func (m *machine) ring(s *sharding, r reduction, kernels map[string]*kernel) [][]*dispatch {
	var rounds [][]*dispatch
	n := len(m.gpus)
	place := func(gpu int, name string, c chunk) driver.Ptr { return m.place(s, gpu, name, c) }
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
		sums, to := r.Partials[0], r.Partials[0] // of the neighbour, and here
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

// tree adds up one of them: up a binary tree, whose root is GPU 0, and down again.
func (m *machine) tree(s *sharding, r reduction, kernels map[string]*kernel) [][]*dispatch {
	var rounds [][]*dispatch
	n, c := len(m.gpus), r.Chunks[0]
	if c.Size == 0 {
		return nil
	}
	stage := func(apart int, prepare func(near, far int) dispatch) {
		var dispatches []*dispatch
		for near := 0; near+apart < n; near += 2 * apart {
			d := prepare(near, near+apart)
			d.grid = [3]uint32{c.Groups, 1, 1}
			dispatches = append(dispatches, &d)
		}
		rounds = append(rounds, dispatches)
	}
	held := make([]string, n) // what has the sum of a GPU and of those below it
	for gpu := range held {
		held[gpu] = r.Part
	}
	apart := 1
	for level := 0; apart < n; level++ {
		to := r.Result
		if 2*apart < n {
			to = r.Partials[level]
		}
		stage(apart, func(near, far int) dispatch {
			own, other := m.place(s, near, held[near], c), m.place(s, far, held[far], c)
			held[near] = to
			return dispatch{kernel: kernels[c.Add], gpu: &m.gpus[near],
				args: []driver.Ptr{own, other, m.place(s, near, to, c)}}
		})
		apart *= 2
	}
	for apart /= 2; apart > 0; apart /= 2 {
		stage(apart, func(near, far int) dispatch {
			return dispatch{kernel: kernels[c.Copy], gpu: &m.gpus[far],
				args: []driver.Ptr{m.place(s, near, r.Result, c), m.place(s, far, r.Result, c)}}
		})
	}
	return rounds
}
