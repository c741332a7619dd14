terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    aws = {
      source = "hashicorp/aws"
    }
  }
}

data "coder_parameter" "repository" {
  name         = "repository"
  display_name = "Git repository"
  description  = "The URL of a repository that describes a dev container."
  icon         = "/icon/git.svg"
  default      = "https://github.com/microsoft/vscode-remote-try-node"
  mutable      = false
}

data "coder_parameter" "region" {
  name         = "region"
  display_name = "Region"
  description  = "Where the instance runs."
  default      = "eu-central-1"
  mutable      = false
  option {
    name  = "Frankfurt"
    value = "eu-central-1"
  }
  option {
    name  = "Northern Virginia"
    value = "us-east-1"
  }
  option {
    name  = "Singapore"
    value = "ap-southeast-1"
  }
}

data "coder_parameter" "instance_type" {
  name         = "instance_type"
  display_name = "Instance type"
  description  = "The instance's cores and memory."
  default      = "t3.large"
  mutable      = true
  option {
    name  = "2 cores, 4 GiB"
    value = "t3.medium"
  }
  option {
    name  = "2 cores, 8 GiB"
    value = "t3.large"
  }
  option {
    name  = "4 cores, 16 GiB"
    value = "t3.xlarge"
  }
}

provider "aws" {
  region = data.coder_parameter.region.value
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "aws_ami" "ubuntu" {
  most_recent = true
  owners      = ["099720109477"] # Canonical
  filter {
    name   = "name"
    values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
  }
}

locals {
  folder = "/home/ubuntu/${trimsuffix(basename(data.coder_parameter.repository.value), ".git")}"
  tags = {
    Name               = "workspace-${data.coder_workspace_owner.me.name}-${data.coder_workspace.me.name}"
    coder-owner        = data.coder_workspace_owner.me.name
    coder-workspace    = data.coder_workspace.me.name
    coder-workspace-id = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

# Dev containers need Docker and their command. The first boot installs both.
resource "coder_script" "tools" {
  agent_id     = coder_agent.main.id
  display_name = "Dev container command"
  icon         = "/icon/devcontainers.svg"
  run_on_start = true
  timeout      = 900
  script       = <<-EOT
    #!/bin/sh
    set -eu
    until command -v docker > /dev/null && sudo docker info > /dev/null 2>&1; do sleep 2; done
    command -v devcontainer > /dev/null || sudo npm install --global @devcontainers/cli
  EOT
}

resource "coder_script" "clone" {
  agent_id     = coder_agent.main.id
  display_name = "Repository"
  icon         = "/icon/git.svg"
  run_on_start = true
  script       = "test -e \"$FOLDER\" || git clone \"$REPOSITORY\" \"$FOLDER\""
}

resource "coder_env" "repository" {
  agent_id = coder_agent.main.id
  name     = "REPOSITORY"
  value    = data.coder_parameter.repository.value
}

resource "coder_env" "folder" {
  agent_id = coder_agent.main.id
  name     = "FOLDER"
  value    = local.folder
}

# starts once the scripts above have ended
resource "coder_devcontainer" "repository" {
  count            = data.coder_workspace.me.start_count
  agent_id         = coder_agent.main.id
  workspace_folder = local.folder
}

resource "aws_instance" "workspace" {
  ami           = data.aws_ami.ubuntu.id
  instance_type = data.coder_parameter.instance_type.value

  # images of containers need room
  root_block_device {
    volume_size = 50
  }

  # cloud-init runs this part at every boot, so that the agent starts again with its new token
  user_data = <<-EOT
    Content-Type: multipart/mixed; boundary="//"
    MIME-Version: 1.0

    --//
    Content-Type: text/cloud-config; charset="us-ascii"

    #cloud-config
    packages: [docker.io, git, npm]
    cloud_final_modules:
      - package_update_upgrade_install
      - [scripts-user, always]

    --//
    Content-Type: text/x-shellscript; charset="us-ascii"

    #!/bin/sh
    export CODER_AGENT_TOKEN='${coder_agent.main.token}'
    echo '${base64encode(coder_agent.main.init_script)}' | base64 -d > /run/agent-init.sh
    usermod --append --groups docker ubuntu
    exec sudo -u ubuntu --preserve-env=CODER_AGENT_TOKEN sh /run/agent-init.sh
    --//--
  EOT

  tags        = local.tags
  volume_tags = local.tags
  # a newer image must not replace the instance and its disk
  lifecycle {
    ignore_changes = [ami]
  }
}

resource "aws_ec2_instance_state" "workspace" {
  instance_id = aws_instance.workspace.id
  state       = data.coder_workspace.me.transition == "start" ? "running" : "stopped"
}
