# Merges what the tools tell about the parts of the image into one CycloneDX document.
#
# Input: null. Arguments: $name, $version, $rust; by --slurpfile $operator and $agent (crates, of tools/image/licences),
# $go (`go version -m -json` of csi-proxy.exe), $debian (dpkg-query, a package an object), $release (os-release), $crates
# (SHA-256 by name and version), $go_licences (by module), $programs (SHA-256 of what is built here, by name).

def encoded: @uri | gsub("%7E"; "~");

# `purl` is also what names the component within the document.
def component($type; $name; $version; $purl):
    {type: $type, "bom-ref": $purl, name: $name, version: $version, purl: $purl};

def hashed($sum): if $sum then {hashes: [{alg: "SHA-256", content: $sum}]} else {} end;

def crate($type):
    component($type; .name; .version; "pkg:cargo/\(.name)@\(.version | encoded)")
    + {licenses: [{expression: .license}]}
    + hashed($crates[0]["\(.name) \(.version)"] // $programs[0][.name])
    + if .description then {description: (.description | gsub("\\s+"; " ") | ltrimstr(" ") | rtrimstr(" "))} else {} end;

def crates($list; $program):
    $list | map(if .name == $program then crate("application") else crate("library") end);

# What go.sum pins is a hash over the hashes of a module's files, for which CycloneDX has no name.
def go_module($type):
    component($type; .Path; .Version; "pkg:golang/\(.Path | ascii_downcase)@\(.Version | encoded)")
    + {licenses: [{expression: ($go_licences[0][if .Path == "std" then "standard-library" else .Path end])}]}
    + hashed($programs[0][.Path])
    + if .Sum then {properties: [{name: "go:sum", value: .Sum}]} else {} end;

def package($release):
    component("library"; .name; .version;
        "pkg:deb/\($release.ID)/\(.name)@\(.version | encoded)?arch=\(.architecture)&distro=\($release.ID)-\($release.VERSION_ID)");

($go[0]) as $go
| (crates($operator[0]; $name)) as $operator
| (crates($agent[0]; "windows-storage-agent")) as $agent
| ([$go.Main | go_module("application")]
    + [$go.Deps[] | (.Replace // .) | go_module("library")]
    + [{Path: "std", Version: ($go.GoVersion | ltrimstr("go"))} | go_module("library")]) as $proxy
| ([component("library"; "rust-std"; $rust; "pkg:generic/rust-std@\($rust)")
    + {licenses: [{expression: "MIT OR Apache-2.0"}]}]) as $standard
| ($debian | map(package($release[0]))) as $debian
| (component("container"; $name; $version; "pkg:oci/\($name)@\($version | encoded)")) as $image
| def root($list): $list | map(select(.type == "application") | .["bom-ref"])[0];
  def rest($list): root($list) as $root | $list | map(.["bom-ref"] | select(. != $root)) | unique;
{
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {component: ($image | del(.purl))},
    components: ($operator + $agent + $proxy + $standard + $debian
        | group_by(.["bom-ref"]) | map(sort_by(.type)[0])),
    dependencies: [
        {ref: $image["bom-ref"], dependsOn: ([root($operator), root($agent), root($proxy), ($debian[] | .["bom-ref"])] | unique)},
        {ref: root($operator), dependsOn: (rest($operator) + [$standard[0]["bom-ref"]] | unique)},
        {ref: root($agent), dependsOn: (rest($agent) + [$standard[0]["bom-ref"]] | unique)},
        {ref: root($proxy), dependsOn: rest($proxy)}
    ]
}
