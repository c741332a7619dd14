terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

variable "folder" {
  type        = string
  description = "The folder that opens first, as an absolute path."
}

variable "product_code" {
  type        = string
  description = "The code of the editor, such as IU, GO, PY or WS."
  default     = "IU"
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_app" "jetbrains" {
  agent_id     = var.agent_id
  slug         = "jetbrains"
  display_name = "JetBrains Toolbox"
  icon         = "/icon/jetbrains.svg"
  external     = true
  url = join("", [
    "jetbrains://gateway/coder?workspace=${data.coder_workspace.me.name}",
    "&owner=${data.coder_workspace_owner.me.name}",
    "&folder=${urlencode(var.folder)}",
    "&url=${data.coder_workspace.me.access_url}",
    "&token=$SESSION_TOKEN",
    "&ide_product_code=${urlencode(var.product_code)}",
  ])
}
