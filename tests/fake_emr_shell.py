"""The commands hadoop, yarn and mapred of the EMR cluster in fake_emr, as far as steps use them.

Usage: fake_emr_shell.py FOLDER ENDPOINT COMMAND ARGUMENT...
FOLDER has a JSON file for each job that ran; ENDPOINT is where S3 is.
"""

import json
import sys
import urllib.request
from pathlib import Path


def s3(endpoint, uri, data=None):
    """Get an object, or put data."""
    headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS test:test"}
    url, method = f"{endpoint}/{uri[len('s3://') :]}", "GET" if data is None else "PUT"
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as response:
        return response.read()


def main(folder, endpoint, command, *arguments):
    jobs = {
        path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("application_*.json"))
    }
    call = (command, *arguments)
    if call[:4] == ("hadoop", "fs", "-put", "-f"):
        source, target = call[4:]
        s3(endpoint, target, sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes())
    elif call[:3] == ("hadoop", "fs", "-get"):
        source, target = call[3:]
        Path(target).write_bytes(s3(endpoint, source))
    elif call == ("yarn", "application", "-list", "-appStates", "FINISHED,FAILED,KILLED"):
        print(f"Total number of applications:{len(jobs)}")
        print("                Application-Id\t    Application-Name\t    Application-Type\t      User")
        for id_, job in jobs.items():
            print(f"{id_:>30}\t{job['name']:>20}\t{'MAPREDUCE':>20}\t{'hadoop':>10}")
    elif call[:3] == ("mapred", "job", "-status"):
        job = jobs["application" + call[3][len("job") :]]
        print(f"\nJob: {call[3]}\nJob state: {job['state']}\nreason for failure: \n{job['counters']}")
    elif call[:3] == ("yarn", "logs", "-applicationId") and call[4:] == ("-log_files", "stderr"):
        for number, text in enumerate(jobs[call[3]]["stderr"]):
            print(f"Container: container_{number} on ip-10-0-0-1\nLogType:stderr\nLogContents:\n{text}")
            print("End of LogType:stderr")
    else:
        sys.exit(f"{' '.join(call)}: not part of this cluster")


if __name__ == "__main__":
    main(*sys.argv[1:])
