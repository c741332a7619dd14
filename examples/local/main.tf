terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_agent" "main" {
  os             = data.coder_provisioner.me.os
  arch           = data.coder_provisioner.me.arch
  startup_script = "echo \"Hello from ${data.coder_workspace.me.name}\""

  metadata {
    key          = "load"
    display_name = "Load average"
    script       = "cut -d' ' -f1-3 /proc/loadavg"
    interval     = 10
    timeout      = 1
  }
}

# The folder survives a stop. The process does not.
resource "terraform_data" "home" {
  input = "${pathexpand("~")}/workspaces/${data.coder_workspace_owner.me.name}/${data.coder_workspace.me.name}"

  provisioner "local-exec" {
    command = "mkdir -p '${self.input}'"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm -rf \"$(readlink -f '${self.input}')\" '${self.input}'"
  }
}

resource "terraform_data" "process" {
  count = data.coder_workspace.me.start_count

  triggers_replace = coder_agent.main.id
  input            = terraform_data.home.input

  # The agent gets its own session, so that it outlives the build, and its own environment, so that it inherits nothing
  # from the build. Its files are in the home folder, so that they are deleted with the workspace and no other workspace
  # of the machine shares them.
  provisioner "local-exec" {
    command = <<-EOT
      umask 022
      mkdir -p "$DIR" && cd "$DIR" && rm -rf .agent .agent.pid || exit 1
      setsid env -i PATH="$PATH" HOME="$DIR" BINARY_DIR="$DIR/.agent" \
        CODER_AGENT_SCRIPT_DATA_DIR="$DIR/.agent" CODER_AGENT_TOKEN="$TOKEN" \
        sh -c 'echo $$ > .agent.pid; exec sh -c "$0"' "$INIT_SCRIPT" > .agent.log 2>&1 < /dev/null &
      for i in $(seq 100); do [ -s .agent.pid ] && exit 0; sleep 0.1; done
      echo "The agent did not start:" >&2; cat .agent.log >&2; exit 1
    EOT
    environment = {
      DIR         = self.input
      TOKEN       = coder_agent.main.token
      INIT_SCRIPT = coder_agent.main.init_script
    }
  }

  # The agent has ten seconds to run its shutdown scripts.
  provisioner "local-exec" {
    when    = destroy
    command = <<-EOT
      case $(LC_ALL=C ls "$DIR" 2>&1 > /dev/null) in *ermission*) echo "Cannot read $DIR." >&2; exit 1 ;; esac
      pid=$(cat "$DIR/.agent.pid" 2>/dev/null) || exit 0
      kill -TERM "-$pid" 2>/dev/null
      for i in $(seq 100); do kill -0 "-$pid" 2>/dev/null || break; sleep 0.1; done
      kill -KILL "-$pid" 2>/dev/null
      case $(LC_ALL=C kill -0 "-$pid" 2>&1) in *ermitted*) echo "Another user runs process $pid of $DIR." >&2; exit 1 ;; esac
      rm -f "$DIR/.agent.pid"
    EOT
    environment = {
      DIR = self.input
    }
  }
}
