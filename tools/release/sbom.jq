# Cuts what `cargo sbom` lists, which is every package for every system, to what is in one program: $audit is what `cargo auditable` recorded there.
# The order, the date and the name of the document are those of the release, not of the run.
def package_key: "\(.name) \(.versionInfo // .version)";
($audit[0].packages | map(select(.kind != "build") | package_key)) as $in
| (.packages | map(select(package_key | IN($in[])))) as $packages
| ($packages | map(.SPDXID)) as $ids
| ($packages[] | select(.name == $program) | .SPDXID) as $described
| .packages = ($packages
    | map(if .SPDXID == $described then . + {checksums: [{algorithm: "SHA256", checksumValue: $sha256}]} else . end)
    | sort_by(.SPDXID))
| del(.files)
| .relationships = ([.relationships[]
    | select(.relationshipType == "DEPENDS_ON" and (.spdxElementId | IN($ids[])) and (.relatedSpdxElement | IN($ids[])))]
  + [{spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: $described}]
  | unique)
| .name = $name
| .documentNamespace = "\($source)/spdx/\($name)-\($commit)"
| .creationInfo.created = $date
