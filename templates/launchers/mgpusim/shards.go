// The share of the workload that each of several GPUs has, and their results put together.

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
)

const (
	mostGPUs = 64
	guard    = 4096 // bytes of canary after each buffer
)

// sharding is what one of the GPUs runs. simgen/workload/sharding.py makes it and says what its parts mean; the
// steps of both workloads are the same, one to one.
type sharding struct {
	GPUs       int
	Workload   workload
	Reductions [][]reduction // for each step, to be done after it
	Afterwards [][]launch    // for each step, on every GPU after these
	kernels    string        // folder of the code objects
}

// reduction is a sum over the batch that the GPUs add up. It names buffers of the arena of each of them.
type reduction struct {
	Part, Result string
	Partials     []string
	Way          string  // ring or tree
	Chunks       []chunk // of a ring one for each GPU, of a tree one
}

// counts makes sure of the numbers of chunks and partial sums.
func (r *reduction) counts(gpus int) bool {
	if r.Way == "tree" {
		return len(r.Chunks) == 1 && len(r.Partials) == bits.Len(uint(gpus-1))-1
	}
	return r.Way == "ring" && len(r.Chunks) == gpus && len(r.Partials) == 1
}

type chunk struct {
	Start, Size uint64 // elements
	Groups      uint32
	Add, Copy   string // kernels
}

// readSharding reads the shares of a number of GPUs; the one of a single GPU is the workload.
func readSharding(b *bundle, gpus int) *sharding {
	if gpus == 1 {
		none := make([][]reduction, len(b.Workload.Steps))
		return &sharding{1, b.Workload, none, nil, target + "/kernels/"}
	}
	folder := fmt.Sprintf("%s/gpus-%d/", target, gpus)
	s := &sharding{kernels: folder + "kernels/"}
	if err := json.Unmarshal(b.read(folder+"shards.json"), s); err != nil {
		fail(exitDamaged, "%sshards.json: damaged (%v); build the bundle again", folder, err)
	}
	s.Workload.check()
	for _, launches := range s.Afterwards {
		for _, l := range launches {
			s.Workload.checkLaunch(l)
		}
	}
	if !s.fits(&b.Workload, gpus) {
		fail(exitDamaged, "%sshards.json: not of this workload; build the bundle again", folder)
	}
	return s
}

// fits makes sure of what the rest of the program takes for granted.
func (s *sharding) fits(whole *workload, gpus int) bool {
	good := s.GPUs == gpus && len(s.Reductions) == len(whole.Steps) &&
		len(s.Workload.Steps) == len(whole.Steps) &&
		(s.Afterwards == nil || len(s.Afterwards) == len(whole.Steps))
	for _, b := range whole.Buffers {
		share := s.Workload.buffer(b.Name)
		if b.Role != "scratch" {
			good = good && share != nil && share.isOf(&b, gpus)
		}
	}
	for _, reductions := range s.Reductions {
		for _, r := range reductions {
			good = good && r.counts(gpus)
			for _, name := range append([]string{r.Part, r.Result}, r.Partials...) {
				share := s.Workload.buffer(name)
				good = good && share != nil && r.fit(&s.Workload, share.nbytes())
			}
		}
	}
	return good
}

// after are the launches behind the reductions of a step.
func (s *sharding) after(at int) []launch {
	if s.Afterwards == nil {
		return nil
	}
	return s.Afterwards[at]
}

// isOf tells whether GPUs that have this tensor have a part each of another one, or all of it.
func (b *buffer) isOf(whole *buffer, gpus int) bool {
	return b.nbytes() == whole.nbytes() || b.nbytes()*uint64(gpus) == whole.nbytes()
}

func (r *reduction) fit(w *workload, nbytes uint64) bool {
	for _, c := range r.Chunks {
		if c.Start > nbytes/4 || c.Size > nbytes/4-c.Start { // both count elements
			return false
		}
		if c.Size > 0 && (c.Groups == 0 || w.block(c.Add) == 0 || w.block(c.Copy) == 0) {
			return false
		}
	}
	return true
}

// rows tells which bytes of a tensor GPU i has: where they start, and whether all GPUs have the same.
func rows(whole, share *buffer, i int) (from uint64, same bool) {
	if share.nbytes() == whole.nbytes() {
		return 0, true
	}
	return uint64(i) * share.nbytes(), false
}

// upload gives each GPU its share of the inputs and fills what is dumped after the run with canary.
func (m *machine) upload(whole workload, s *sharding, data *dataFile) {
	for i, input := range whole.inputs() {
		share := s.Workload.buffer(input.Name)
		for at := range m.gpus {
			from, _ := rows(&input, share, at)
			from += data.entries[i].Offset
			m.write(&m.gpus[at], share.Offset, share.nbytes(), func(part []byte, done uint64) {
				if err := data.readAt(part, from+done); err != nil {
					fail(exitDataSize, "data.h5: cannot be read (%v); build the bundle again", err)
				}
			})
		}
	}
	w := &s.Workload
	for at := range m.gpus {
		m.write(&m.gpus[at], w.OutputsOffset, w.ArenaNbytes-w.OutputsOffset, func(part []byte, _ uint64) {
			copy(part, data.canaries(uint64(len(part))))
		})
	}
}

// download writes the arena of the whole workload, from outputs_offset on, to a file.
func (m *machine) download(whole workload, s *sharding, data *dataFile, path string) {
	file, err := os.Create(path)
	if err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be made (%v); check the folder and its permissions", reason(err))
	}
	out := bufio.NewWriterSize(file, 1<<20)
	at := whole.OutputsOffset
	pad := func(to uint64) { // an error of the writer stays, and Flush returns it
		for ; at < to; at += min(chunkNbytes, to-at) {
			out.Write(data.canaries(min(chunkNbytes, to-at)))
		}
	}
	for _, b := range whole.Buffers {
		if b.Role != "output" {
			continue
		}
		pad(b.Offset)
		at += m.collect(out, &b, s.Workload.buffer(b.Name), data)
	}
	pad(whole.ArenaNbytes)
	if err := out.Flush(); err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be written (%v); check the space on the disk", reason(err))
	}
	if err := file.Close(); err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be written (%v); check the space on the disk", reason(err))
	}
}

// collect writes a tensor and the canaries behind it, and returns how many bytes these are.
//
// Where a GPU has written over the canaries behind its share, it is those that are shown.
func (m *machine) collect(out *bufio.Writer, whole, share *buffer, data *dataFile) uint64 {
	intact := data.canaries(guard)
	behind := intact
	for i := range m.gpus {
		if found := m.read(&m.gpus[i], share.Offset+share.nbytes(), guard); !bytes.Equal(found, intact) {
			behind = found
		}
		_, same := rows(whole, share, i)
		for at := uint64(0); at < share.nbytes(); at += chunkNbytes {
			nbytes := min(chunkNbytes, share.nbytes()-at)
			part := m.read(&m.gpus[i], share.Offset+at, nbytes)
			if i == 0 || !same {
				out.Write(part)
			} else if !bytes.Equal(part, m.read(&m.gpus[0], share.Offset+at, nbytes)) {
				fail(exitKernel, "%s differs between GPU 0 and GPU %d, which compute the same; "+
					"run it with --gpus 1, or in another --mode", whole.Name, i)
			}
		}
	}
	out.Write(behind)
	return whole.nbytes() + guard
}
