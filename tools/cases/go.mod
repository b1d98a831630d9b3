module github.com/hybrid-helm-operator/hybrid-helm-operator/tools/cases

go 1.26.0

require (
	github.com/Masterminds/semver/v3 v3.5.0
	github.com/gobwas/glob v0.2.3
	sigs.k8s.io/yaml v1.6.0
)

require go.yaml.in/yaml/v2 v2.4.2 // indirect
