"""Snakemake with its plugin for Kubernetes, for a folder on a volume that all pods mount.

`python -m simgen.running.workflow.kubernetes` takes the options of `snakemake`. The plugin is made
for workflows that keep everything in object storage: this one has jobs that share a folder, limits
of memory and time, and lacks what ends or hangs a workflow in the plugin's 0.5.1.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_kubernetes as plugin
import urllib3
from kubernetes import client
from kubernetes import config as configured
from snakemake import cli
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from simgen.ask.run import JobChoices
from simgen.errors import MissingError, SimgenError, UsageError, one_line, shortened
from simgen.running.workflow.engine import ERROR, WAITS
from simgen.running.workflow.executors import KUBERNETES, SECONDS

ExecutorSettings = plugin.ExecutorSettings
# Jobs see the folder; nothing is copied, or installed in a pod.
common_settings = replace(
    plugin.common_settings,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    auto_deploy_default_storage_provider=False,
)
RUN = "simgen-run"  # label of the jobs of one run
KEPT = 3600  # seconds that a job which has ended may be asked for
KILLED = 2  # seconds until a pod's processes are killed: what a piece leaves is whole or not there
GONE = 30.0  # seconds for pods to end
PATIENCE = 20.0  # seconds that a pod may wait before it is said
UNSEEN = "can't cd to"  # a shell's words where the folder is not there
# Why a container is not started, and would not be in an hour.
# https://github.com/kubernetes/kubernetes, pkg/kubelet/images/types.go, kuberuntime_container.go
NEVER = {
    "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError",
}  # fmt: skip


class VolumeExecutor(plugin.Executor):  # type: ignore[misc]
    """The plugin's, for jobs that share the folder."""

    def __post_init__(self) -> None:
        self.minutes = 0  # minutes of the submitted job
        self.ended: set[str] = set()
        self.why = ""  # the job that is looked at failed
        self.waiting: dict[str, float] = {}  # why -> since when
        super().__post_init__()

    @property
    def batchapi(self) -> Any:
        return self._batchapi

    @batchapi.setter
    def batchapi(self, api: Any) -> None:  # whenever the plugin makes one
        api.create_namespaced_job = partial(self._create, api.create_namespaced_job)
        api.read_namespaced_job_status = partial(_or_none, api.read_namespaced_job_status)
        self._batchapi = api

    @property
    def kubeapi(self) -> Any:
        return self._kubeapi

    @kubeapi.setter
    def kubeapi(self, api: Any) -> None:
        api.read_namespaced_pod_log = partial(self._log, api.read_namespaced_pod_log)
        self._kubeapi = api

    @property
    def label(self) -> str:
        return f"{RUN}={self.run_namespace}"

    def get_job_exec_prefix(self, job: Any) -> str:
        return f"cd {shlex.quote(str(Path.cwd()))}"

    def run_job(self, job: Any) -> None:
        self.minutes = int(job.resources.get("runtime") or 0)
        super().run_job(job)

    def _create(self, create: Callable[..., Any], namespace: str, job: Any) -> Any:
        """Submit the job with the label of its run, and with its memory and time as limits."""
        job.metadata.labels[RUN] = self.run_namespace
        job.spec.template.metadata = client.V1ObjectMeta(labels={RUN: self.run_namespace})
        job.spec.ttl_seconds_after_finished = KEPT
        pod = job.spec.template.spec
        pod.termination_grace_period_seconds = KILLED
        if self.minutes:
            pod.active_deadline_seconds = 60 * self.minutes
        asked = pod.containers[0].resources
        memory = {name: value for name, value in asked.requests.items() if name == "memory"}
        asked.limits = {**memory, **(asked.limits or {})}
        return create(namespace, job)

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncGenerator[Any, None]:
        """The plugin forgets jobs that the cluster had no answer for; they are looked at again."""
        if active_jobs:  # else this may not be made yet
            with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):
                self._look()
        left = {job.external_jobid: job for job in active_jobs}
        async for job in super().check_active_jobs(active_jobs):
            del left[job.external_jobid]
            yield job
        for name, job in left.items():
            if name not in self.ended:
                yield job

    def report_job_success(self, job_info: Any) -> None:
        self.ended.add(job_info.external_jobid)
        super().report_job_success(job_info)

    def report_job_error(self, job_info: Any, **told: Any) -> None:
        self.ended.add(job_info.external_jobid)
        why, self.why = self.why or "its pod was deleted, or its node is gone", ""
        if UNSEEN not in why:
            for name in job_info.job.log:
                _explain(Path(name), why)
        super().report_job_error(job_info, **told)

    def _log(self, read: Callable[..., Any], **words: Any) -> str:
        """What a pod printed, and how it ended. The plugin asks for the log of the container before
        this one, which a job has not; and no log is worth ending a workflow."""
        text = ""
        with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):
            text = str(read(**{**words, "previous": False}) or "")
            self.why = next((line for line in reversed(text.splitlines()) if line.strip()), "")
            status = self.kubeapi.read_namespaced_pod(words["name"], words["namespace"]).status
            ends = [each.state.terminated for each in status.container_statuses or ()]
            said = [status.reason, status.message]
            said += [word for end in ends if end for word in (end.reason, end.message)]
            told = ": ".join(dict.fromkeys(word for word in said if word not in (None, "Error")))
            self.why = f"its pod ended: {told or self.why or 'it printed nothing'}"
        return f"{text}\n{self.why}"

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        """All jobs of the run, also one that is taken at this moment; ends with their pods."""
        super().cancel_jobs(active_jobs)
        with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):
            found = self.batchapi.list_namespaced_job(self.namespace, label_selector=self.label)
            for job in found.items:
                self.safe_delete_job(job.metadata.name)
            end = time.monotonic() + GONE
            while self._pods() and time.monotonic() < end:
                time.sleep(0.5)

    def shutdown(self) -> None:
        if not self.workflow.executor_settings.omit_job_cleanup:
            self.cancel_jobs([])  # what is left after an error
        super().shutdown()

    def _pods(self) -> Any:
        return self.kubeapi.list_namespaced_pod(
            self.namespace, label_selector=self.label, _request_timeout=SECONDS
        ).items

    def _look(self) -> None:
        """Say why pods wait.

        Raises:
            WorkflowError: one cannot start, however long it waits.
        """
        seen = set()
        for pod in self._pods():
            for container in pod.status.container_statuses or ():
                held = container.state.waiting
                if held is not None and held.reason in NEVER:
                    fact = one_line(held.message or held.reason)
                    raise WorkflowError(
                        f"{ERROR}{JobChoices.executor} {KUBERNETES}: pods cannot start in the "
                        f"image {self.container_image} ({held.reason}: {shortened(fact, 300)}); "
                        f"name one that nodes can pull: {JobChoices.container}, or "
                        "container-image in your profile"
                    )
            for condition in pod.status.conditions or ():
                if condition.type == "PodScheduled" and condition.status == "False":
                    seen.add(one_line(condition.message or condition.reason or "no reason given"))
        now = time.monotonic()
        self.waiting = {why: self.waiting.get(why, now) for why in seen}
        for why, since in self.waiting.items():
            if since != 0 and now - since >= PATIENCE:
                self.logger.info(f"{WAITS}{shortened(why, 300)}")
                self.waiting[why] = 0  # said


Executor = VolumeExecutor  # as Snakemake looks for it


def _or_none(read: Callable[..., Any], *words: Any, **more: Any) -> Any:
    """None for a job that is gone, as the plugin expects it."""
    try:
        return read(*words, **more)
    except client.ApiException as error:
        if error.status == 404:
            return None
        raise


def _explain(path: Path, why: str) -> None:
    """Add to the log of a job that failed why its pod did, where simgen itself has not said it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as log:
            log.seek(0)
            if not any(line.startswith(ERROR) for line in log):
                log.write(f"{ERROR}{one_line(why)}\n")


# ------------------------------------------------------------------ before the first job


def check(words: Sequence[str]) -> None:
    """Look for what jobs need, before there is one.

    Raises:
        UsageError: there is no image, no number of jobs, or no volume under the folder.
        MissingError: there is no cluster, or the volume's claim is not in it.
    """
    _, args = cli.parse_args(words)
    place = f"{JobChoices.executor} {KUBERNETES}"
    if args.container_image == cli.get_container_image():
        raise UsageError(
            f"{place}: no image is named that has simgen and Snakemake; name one: "
            f"{JobChoices.container} IMAGE, or container-image in your profile"
        )
    if args.jobs is None:
        raise UsageError(
            f"{place}: nothing says how many pods may run at a time; add to your profile: jobs: 40"
        )
    try:
        settings = ExecutorPluginRegistry().get_plugin(KUBERNETES).get_settings(args)
    except WorkflowError as error:
        raise UsageError(f"{place}: {one_line(str(error))}") from None
    folder = Path(args.directory or ".").resolve()
    volumes = settings.persistent_volumes
    if not any(folder.is_relative_to(each.path) for each in volumes):
        known = ", ".join(f"{each.path}" for each in volumes)
        fact = f"only {known} are on volumes" if volumes else "no volume is mounted in pods"
        raise UsageError(
            f"{folder}: pods would not see it: {fact}; put it onto one, and write "
            'kubernetes-persistent-volumes: ["CLAIM:PATH"] into your profile, PATH as it is here'
        )
    _answers(place, settings.namespace, [each.name for each in volumes])


def _answers(place: str, namespace: str, claims: Sequence[str]) -> None:
    cure = f"see `kubectl auth whoami`, or use {JobChoices.executor} local"
    try:
        configured.load_kube_config()
    except configured.ConfigException as error:
        try:
            configured.load_incluster_config()
        except configured.ConfigException:
            raise MissingError(
                f"{place}: no cluster is configured here ({one_line(str(error))}); set KUBECONFIG, "
                f"or use {JobChoices.executor} local"
            ) from None
    except Exception as error:  # the client looks at nothing before it uses it
        fact = one_line(f"{type(error).__name__}: {error}")
        raise MissingError(
            f"{place}: the kubeconfig cannot be read ({shortened(fact, 200)}); "
            "try `kubectl config view`"
        ) from None
    api = client.CoreV1Api()
    for claim in claims:
        try:
            api.read_namespaced_persistent_volume_claim(claim, namespace, _request_timeout=SECONDS)
        except urllib3.exceptions.HTTPError as error:
            fact = one_line(str(getattr(error, "reason", error))).rpartition(": ")[2]
            host = api.api_client.configuration.host
            raise MissingError(
                f"{place}: {host} does not answer ({fact}); start it, or "
                f"use {JobChoices.executor} local"
            ) from None
        except client.ApiException as error:
            if error.status == 404:
                raise MissingError(
                    f"{place}: the namespace {namespace} has no claim {claim} of a volume; see "
                    f"`kubectl get persistentvolumeclaims -n {namespace}`"
                ) from None
            said = re.search(r'"message":"((?:[^"\\]|\\.)*)"', str(error.body))
            fact = one_line(said[1].replace("\\", "") if said else f"{error.reason}")
            raise MissingError(f"{place}: the cluster refuses ({fact}); {cure}") from None


def main() -> None:
    """`snakemake`, with this plugin in place of the other."""
    registry = ExecutorPluginRegistry()
    registry.plugins[KUBERNETES] = registry.load_plugin(KUBERNETES, sys.modules[__name__])
    try:
        check(sys.argv[1:])
    except SimgenError as error:
        print(f"{ERROR}{error}")
        sys.exit(error.exit_code)
    cli.main()


if __name__ == "__main__":
    main()
