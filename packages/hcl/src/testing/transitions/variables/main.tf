terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

variable "replicas" {
  type    = number
  default = 1
}

variable "region" {
  type    = string
  default = "eu"
  validation {
    condition     = length(var.region) == 2
    error_message = "Use two letters."
  }
}

data "coder_parameter" "disks" {
  name    = "disks"
  type    = "number"
  default = 3
}

check "region" {
  assert {
    condition     = var.region != "xx"
    error_message = "There is nothing in xx."
  }
}

resource "terraform_data" "replica" {
  count = data.coder_workspace.me.start_count * var.replicas
}

resource "terraform_data" "disk" {
  count = data.coder_workspace.me.start_count == 1 ? data.coder_parameter.disks.value : 1
  lifecycle {
    ignore_changes = [input]
    postcondition {
      condition     = self.input == null
      error_message = "It has no input."
    }
  }
}
