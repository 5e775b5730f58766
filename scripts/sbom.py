"""Writes what toy is made of as SPDX 2.3 (JSON): sbom.py OUT. Libraries are those of cmake/ToyDependencies.cmake, with the
versions that are installed here. The same sources and libraries give the same bytes (SOURCE_DATE_EPOCH)."""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
version = re.search(r"project\(toy VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
cmake = (root / "cmake/ToyDependencies.cmake").read_text(encoding="utf-8")
used = sorted(set(re.findall(r"^toy_require\(\w+ ([\w.+-]+)", cmake, re.M))
              | set(re.findall(r"^toy_require_pkg\(\w+ [\w.+-]+ ([\w.+-]+)\)", cmake, re.M)))


def installed(package):
    run = subprocess.run(["dpkg-query", "-W", "-f", "${Version} ${source:Package}", package], capture_output=True, text=True)
    return run.stdout.split() if run.returncode == 0 else None


def package(name, version, source, purl):
    return {"name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "versionInfo": version,
            "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "MIT" if name == "toy" else "NOASSERTION",
            "copyrightText": "NOASSERTION", "sourceInfo": source,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}


packages, relations = [package("toy", version, "this source", f"pkg:generic/toy@{version}")], []
for name in used:
    found = installed(name)
    if found is None:
        continue
    packages.append(package(name, found[0], f"Debian source package {found[1]}", f"pkg:deb/debian/{name}@{found[0]}"))
    relations.append({"spdxElementId": "SPDXRef-toy", "relationshipType": "DEPENDS_ON",
                      "relatedSpdxElement": packages[-1]["SPDXID"]})
relations.append({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-toy"})
when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"toy-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/toy-{version}-{digest[:32]}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/sbom.py"]},
            "packages": packages, "relationships": relations}
pathlib.Path(sys.argv[1]).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
