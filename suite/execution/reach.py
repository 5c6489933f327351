"""Whether there is what a sweep is to run on: asked before Ray, a store or a folder is begun."""

import os
import socket

import ray

from suite.execution.ray_internals import gpus_here, started_address
from suite.execution.resources import Resources
from trials.common.errors import UserError

SECONDS = 5.0
"""How long a cluster's host may take to take a call."""


def found(address: str) -> str:
    """The address that is meant; `auto` is RAY_ADDRESS, else the cluster that `ray start` began last on
    this machine. Another sweep's own cluster, which Ray would take as well, is never meant.

    Raises `UserError` where there is none.
    """
    if address != "auto":
        return address
    there = os.environ.get("RAY_ADDRESS") or started_address()
    if not there or there == "auto":
        raise UserError(
            "--address auto: no cluster that `ray start` began runs on this machine, and RAY_ADDRESS is "
            "not set: start one, or give its host:port"
        )
    return there


def refuse(resources: Resources) -> None:
    """Raise `UserError` where this process cannot join the cluster, since it uses another already or nobody
    answers at the address, or trials need a GPU and this machine, on which a cluster is to be started, has
    none.
    """
    if resources.joins:
        if ray.is_initialized():
            raise UserError(
                f"cluster {resources.address} cannot be joined: this process uses Ray already. Leave the "
                "address out to run there, or call ray.shutdown() first"
            )
        _call(found(str(resources.address)))
    elif resources.gpus_per_trial and not ray.is_initialized() and not gpus_here():
        raise UserError(
            f"gpus_per_trial is {resources.gpus_per_trial:g}, but this machine has no GPU that Ray knows "
            "of: leave it out, or run where there is one"
        )


def _call(address: str) -> None:
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal() and int(port) < 2**16):
        raise UserError(f"--address {address}: must be host:port, ray://host:port, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cluster {address} cannot be joined: nobody answers there ({reason}). Nothing was started"
        ) from None
