// Command helm-engine measures renders per second of a chart on one core, loaded once, with Helm's engine: the counterpart of render-bench.
//
//	helm-engine SECONDS CHART [VALUES]...
//
// It prints one line of JSON. One render resolves subcharts, merges and validates values, and runs every template. Release and cluster are those of
// render-bench.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// figures are those of all renders together.
type figures struct {
	renders int
	took    time.Duration
	bytes   int // of one render
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "helm-engine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: helm-engine SECONDS CHART [VALUES]...")
	}
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return fmt.Errorf("SECONDS is not a number: %w", err)
	}
	loaded, err := loader.Load(args[1])
	if err != nil {
		return err
	}
	user, err := merged(args[2:])
	if err != nil {
		return err
	}
	found, err := measure(loaded, user, seconds)
	if err != nil {
		return err
	}
	found.report()
	return nil
}

func (f figures) report() {
	took, renders := f.took.Seconds(), float64(f.renders)
	fmt.Printf("{\"renders\":%d,\"per_second\":%.1f,\"ms_each\":%.3f,\"bytes\":%d}\n", f.renders, renders/took, took*1000/renders, f.bytes)
}

// merged reads files of values; later ones win.
func merged(files []string) (map[string]any, error) {
	all := map[string]any{}
	for _, file := range files {
		values, err := common.ReadValuesFile(file)
		if err != nil {
			return nil, err
		}
		all = loader.MergeMaps(all, values)
	}
	return all, nil
}

func measure(loaded *chart.Chart, user map[string]any, seconds float64) (figures, error) {
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = common.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	bytes, err := render(loaded, user, capabilities)
	if err != nil {
		return figures{}, err
	}
	renders, start := 0, time.Now()
	for time.Since(start).Seconds() < seconds {
		if _, err := render(loaded, user, capabilities); err != nil {
			return figures{}, err
		}
		renders++
	}
	return figures{renders, time.Since(start), bytes}, nil
}

// render returns how many bytes the chart renders to.
func render(loaded *chart.Chart, user map[string]any, capabilities *common.Capabilities) (int, error) {
	if err := chartutil.ProcessDependencies(loaded, user); err != nil {
		return 0, err
	}
	release := common.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(loaded, user, release, capabilities)
	if err != nil {
		return 0, err
	}
	files, err := engine.Render(loaded, values)
	bytes := 0
	for _, output := range files {
		bytes += len(output)
	}
	return bytes, err
}
