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

data "aws_ami" "windows" {
  most_recent = true
  owners      = ["801119661308"] # Amazon
  filter {
    name   = "name"
    values = ["Windows_Server-2022-English-Full-Base-*"]
  }
}

locals {
  tags = {
    Name               = "workspace-${data.coder_workspace_owner.me.name}-${data.coder_workspace.me.name}"
    coder-owner        = data.coder_workspace_owner.me.name
    coder-workspace    = data.coder_workspace.me.name
    coder-workspace-id = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "windows"
  arch = "amd64"
}

resource "aws_instance" "workspace" {
  ami           = data.aws_ami.windows.id
  instance_type = data.coder_parameter.instance_type.value

  # persist: Windows runs it at every boot, so that the agent starts again with its new token
  user_data = <<-EOT
    <powershell>
    [Environment]::SetEnvironmentVariable("CODER_AGENT_TOKEN", "${coder_agent.main.token}")
    ${coder_agent.main.init_script}
    </powershell>
    <persist>true</persist>
  EOT

  root_block_device {
    volume_size = 60
  }

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
