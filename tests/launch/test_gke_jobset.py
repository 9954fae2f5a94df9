"""launch/gke_jobset.yaml against the fields of its APIs, and against itself.

The fields are those of the references jobset.x-k8s.io/v1alpha2 and Kubernetes'
batch/v1 and v1, as far as the manifest uses them: a misspelt one would be
refused, or worse, ignored.
"""

import pathlib
import shlex

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / "launch" / "gke_jobset.yaml"

# field -> its type, or fields of the object, or [fields of a list's objects].
POD = {
    "restartPolicy": str,
    "serviceAccountName": str,
    "terminationGracePeriodSeconds": int,
    "nodeSelector": {str: str},
    "containers": [{
        "name": str,
        "image": str,
        "command": [str],
        "env": [{"name": str, "value": str}],
        "ports": [{"containerPort": int}],
        "resources": {"requests": {str: int}, "limits": {str: int}},
        "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    }],
    "volumes": [{
        "name": str,
        "csi": {
            "driver": str, "readOnly": bool, "volumeAttributes": {str: str}
        },
    }],
}
JOB = {
    "parallelism": int,
    "completions": int,
    "completionMode": str,
    "backoffLimit": int,
    "podFailurePolicy": {"rules": [{
        "action": str,
        "onExitCodes": {"containerName": str, "operator": str, "values": [int]},
    }]},
    "template": {"metadata": {"annotations": {str: str}}, "spec": POD},
}
JOBSET = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "annotations": {str: str}},
    "spec": {
        "failurePolicy": {
            "maxRestarts": int,
            "restartStrategy": str,
            "rules": [{
                "name": str, "action": str, "onJobFailureReasons": [str],
                "targetReplicatedJobs": [str],
            }],
        },
        "replicatedJobs": [
            {"name": str, "replicas": int, "template": {"spec": JOB}}
        ],
        "ttlSecondsAfterFinished": int,
    },
}


def check(value, schema, path=""):
  if isinstance(schema, type):
    assert type(value) is schema, f"{path}: {value!r} is no {schema.__name__}"
  elif isinstance(schema, list):
    assert isinstance(value, list) and value, path
    for i, item in enumerate(value):
      check(item, schema[0], f"{path}[{i}]")
  else:
    assert isinstance(value, dict) and value, path
    for name, item in value.items():
      assert name in schema or str in schema, f"{path} has no field {name}"
      check(item, schema.get(name, schema.get(str)), f"{path}.{name}")


@pytest.fixture
def jobset():
  return yaml.safe_load(FILE.read_text())


@pytest.fixture
def job(jobset):
  (replicated,) = jobset["spec"]["replicatedJobs"]
  return replicated["template"]["spec"]


def test_fields(jobset):
  check(jobset, JOBSET)
  assert jobset["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
  assert jobset["kind"] == "JobSet"


def test_the_check_can_fail(jobset):
  jobset["spec"]["failurePolicy"]["maxRestart"] = 3
  with pytest.raises(AssertionError, match="no field maxRestart"):
    check(jobset, JOBSET)
  with pytest.raises(AssertionError, match="is no int"):
    check({"parallelism": "4"}, JOB)


def test_machines_and_chips_make_up_the_slice(job):
  pod = job["template"]["spec"]
  (container,) = pod["containers"]
  rows, columns = map(
      int, pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"].split("x")
  )
  resources = container["resources"]
  chips = resources["limits"]["google.com/tpu"]
  assert resources["requests"] == resources["limits"]
  assert job["parallelism"] == job["completions"] == rows * columns / chips


def test_a_preempted_pod_fails_and_a_mistake_is_not_repeated(jobset, job):
  """What is saved but not done must not look done to Kubernetes."""
  (container,) = job["template"]["spec"]["containers"]
  (variable,) = container["env"]
  assert variable["name"] == "CTRL_JAX_PREEMPTED_EXIT_CODE"
  assert int(variable["value"]) not in (0, 2)
  # podFailurePolicy is refused with another restartPolicy.
  assert job["template"]["spec"]["restartPolicy"] == "Never"
  (rule,) = job["podFailurePolicy"]["rules"]
  assert rule["action"] == "FailJob"
  assert rule["onExitCodes"]["values"] == [2]
  assert rule["onExitCodes"]["containerName"] == container["name"]
  (rule,) = jobset["spec"]["failurePolicy"]["rules"]
  assert rule["action"] == "FailJobSet"
  assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
  assert job["backoffLimit"] == 0


def test_what_it_mounts_and_runs(job):
  pod = job["template"]["spec"]
  (container,) = pod["containers"]
  assert {m["name"] for m in container["volumeMounts"]} == {
      v["name"] for v in pod["volumes"]
  }
  command = container["command"]
  assert command[:3] == ["python", "-m", "ctrl_jax.train"]
  options = dict(x.removeprefix("--").split("=") for x in command[3:])
  assert (ROOT / options["config"]).exists()
  assert options["workdir"].startswith("gs://")
  (mount,) = container["volumeMounts"]
  assert options["config.data.folder"].startswith(mount["mountPath"] + "/")


def test_placeholders_are_explained_and_only_they_are_left(jobset):
  text = FILE.read_text()
  comment, _, body = text.partition("apiVersion")
  for name in ("IMAGE", "BUCKET", "SERVICE_ACCOUNT"):
    assert f"#   {name} " in comment and name in body
  # The name in the commands of the comment is that of the job.
  commands = [line for line in comment.splitlines() if "kubectl" in line]
  assert any(shlex.split(c)[-1] == jobset["metadata"]["name"] for c in commands)
