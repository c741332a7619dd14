terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

variable "agent_id" {}

variable "unused" {
  default = 1
}

locals {
  unused = 3
}

resource "coder_script" "late" {
  agent_id     = var.agent_id
  script       = "true"
  display_name = "late"
}

resource "terraform_data" "nothing" {}

module "inner" {
  source = "./inner"
}

output "script" {
  value = coder_script.late.id
}
